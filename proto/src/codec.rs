//! Protobuf on the wire of gRPC, with buffers that begin small.
//!
//! tonic allocates two buffers of 8 KiB for each call at once, whatever it will carry, and keeps them for as long as the
//! call lasts: of 10,000 sessions that say a few bytes every few seconds these would be 160 MiB. Here they begin with
//! what most messages of a session need, and grow with the first that needs more.

use std::{fmt, marker::PhantomData};

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

/// Bytes of each buffer at first.
const AT_FIRST: usize = 1024;

/// Bytes that are encoded before they are handed to the transport: what tonic takes otherwise, too.
const HANDED_ON: usize = 32 * 1024;

/// The codec of all services.
pub struct LeanCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for LeanCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> fmt::Debug for LeanCodec<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeanCodec")
    }
}

impl<T, U> Codec for LeanCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(AT_FIRST, HANDED_ON))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(AT_FIRST, HANDED_ON))
    }
}
