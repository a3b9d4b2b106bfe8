//! tenure-client.
