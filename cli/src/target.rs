//! Which server a command speaks to, and as whom: flag > environment > context > default, setting by setting.

use std::io::IsTerminal;

use tenure_client::{Client, DEFAULT_ENDPOINT, Options, OwnCertificate, RetryPolicy, TlsFiles};

use crate::args::{Ask, Global};
use crate::context::{self, Context};
use crate::exit::Failure;
use crate::output::{colour_is_welcome, paint};

/// A server and how to speak to it.
pub(crate) struct Target {
    endpoint: String,
    tls: Option<TlsFiles>,
    insecure: bool,
    /// Whose server it is; none if flag or environment name one, or nothing does.
    context: Option<(String, Context)>,
}

impl Target {
    /// As flags, environment and contexts say.
    pub(crate) fn of(global: &Global) -> Result<Self, Failure> {
        let named = context::in_force(global)?;
        let (own, is_of_context) = match (&global.server, &named) {
            (Some(server), _) => (server.clone(), false),
            (None, Some((_, context))) => (context.server.clone(), true),
            (None, None) => (DEFAULT_ENDPOINT.to_owned(), false),
        };
        let context = named.as_ref().map(|(_, context)| context.clone()).unwrap_or_default();
        let ca = global.tls_ca.clone().or(context.tls_ca);
        let cert = global.tls_cert.clone().or(context.tls_cert);
        let key = global.tls_key.clone().or(context.tls_key);
        let tls = match (ca, cert, key) {
            (None, None, None) => None,
            (Some(ca), Some(cert), Some(key)) => {
                Some(TlsFiles { ca, own: Some(OwnCertificate { cert, key }) })
            }
            _ => {
                return Err(Failure::Usage(
                    "--tls-ca, --tls-cert and --tls-key belong together: name all three".to_owned(),
                ));
            }
        };
        Ok(Self {
            endpoint: own,
            tls,
            // It was said of the context's server; another one is none the safer for it.
            insecure: global.insecure || is_of_context && context.insecure,
            context: named.filter(|_| is_of_context),
        })
    }

    /// A write to a protected context names it, so that nobody writes to what happened to be in use.
    pub(crate) fn admit(&self, ask: &Ask, global: &Global) -> Result<(), Failure> {
        let Some((name, context)) = self.context.as_ref().filter(|_| ask.writes()) else { return Ok(()) };
        if context.protected && !global.context_is_typed {
            return Err(Failure::Protected { context: name.clone() });
        }
        if let Some(colour) =
            context.colour.filter(|_| std::io::stderr().is_terminal() && colour_is_welcome())
        {
            paint(colour, &format!("{name} ({})", self.endpoint));
        }
        Ok(())
    }

    /// A client of it.
    pub(crate) fn client(self, global: &Global) -> Result<Client, Failure> {
        let retry = RetryPolicy { give_up_after: global.retry_for, ..RetryPolicy::default() };
        let options = Options { retry, tls: self.tls, insecure: self.insecure };
        Ok(Client::connect_with(&self.endpoint, options)?)
    }
}
