//! tenure-store.
