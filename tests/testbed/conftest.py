from cluster_fixtures import namespace_cluster, standing_cluster

__all__ = ["namespace_cluster", "standing_cluster"]
