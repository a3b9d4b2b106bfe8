//! tenure-node-agent.
