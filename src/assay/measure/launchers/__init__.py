"""How the agents of a run come to be: inside a job that a launcher started, or over ssh.

On a machine of its own there is nothing to launch: the command itself starts the workers.
"""
