//! tenure-server.
