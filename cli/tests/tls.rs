//! Certificates, reloads and floods, with real processes over real sockets.

#[path = "tls/certificates.rs"]
mod certificates;
#[path = "tls/floods.rs"]
mod floods;
#[path = "tls/grpcurl.rs"]
mod grpcurl;
#[path = "tls/home.rs"]
mod home;
#[path = "tls/insecure.rs"]
mod insecure;
#[path = "tls/reload.rs"]
mod reload;
