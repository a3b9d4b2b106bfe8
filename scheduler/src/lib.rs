//! tenure-scheduler.
