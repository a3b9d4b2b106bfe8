"""The messages between a node agent and a worker, generated from ``proto/tenure/node/v1``."""
