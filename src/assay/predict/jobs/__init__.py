"""Jobs that are not language models: phases priced on a cluster, and how they scale."""
