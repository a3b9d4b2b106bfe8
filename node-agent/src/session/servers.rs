//! Which server is asked next.
//!
//! Responsible for the order among the servers of the node file, and for following a server that names the leader. Not
//! responsible for waiting, nor for whether a certificate is the leader's: the handshake finds that out, as with any
//! other address.
//!
//! Invariants: at most three redirects are followed in a row; what a server names is spoken to in the way that it was
//! spoken to itself, and without TLS only on this machine, unless the agent was told otherwise.

use tonic::transport::Uri;

use crate::config::is_loopback;

/// Redirects in a row. More than one means that the leader has changed meanwhile.
const MOST_HOPS: u32 = 3;

/// The servers, and which of them is next.
#[derive(Debug)]
pub(super) struct Servers {
    /// As the node file names them; one at least.
    named: Vec<Uri>,
    /// The place in `named` of the next one.
    next: usize,
    /// Where a server said that the leader is.
    leader: Option<Uri>,
    /// Redirects since the last one that was named by the file, or welcomed us.
    hops: u32,
    /// The last one said Welcome: it is worth another try.
    welcomed: bool,
    /// Other hosts are spoken to without TLS.
    insecure: bool,
}

/// What follows the end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The leader is asked at once.
    Follow,
    /// The next server is asked after a while.
    Wait,
    /// The same; and the leader is where this agent does not go.
    Refuse {
        /// As the server named it.
        leader: String,
    },
}

impl Servers {
    pub(super) fn new(named: Vec<Uri>, insecure: bool) -> Self {
        Self { named, next: 0, leader: None, hops: 0, welcomed: false, insecure }
    }

    /// The one to ask now.
    pub(super) fn address(&self) -> Uri {
        self.leader.as_ref().or_else(|| self.named.get(self.next)).cloned().unwrap_or_default()
    }

    /// Whether there is another one to ask.
    pub(super) fn several(&self) -> bool {
        self.named.len() > 1 || self.leader.is_some()
    }

    /// It said Welcome.
    pub(super) fn welcomed(&mut self) {
        (self.welcomed, self.hops) = (true, 0);
    }

    /// The server says nothing any more: another one is asked first, whatever this one said before.
    pub(super) fn fell_silent(&mut self) {
        self.welcomed = false;
    }

    /// The stream is over. `leader`: `HOST:PORT`, where its server says that the leader is.
    pub(super) fn over(&mut self, leader: Option<&str>) -> Step {
        let here = self.address();
        let worth_another_try = std::mem::take(&mut self.welcomed);
        let named = leader.filter(|_| self.hops < MOST_HOPS).map(|leader| (leader, self.acceptable(leader)));
        let step = match named {
            Some((_, Some(uri))) if uri.authority() != here.authority() => {
                self.leader = Some(uri);
                self.hops += 1;
                return Step::Follow;
            }
            Some((leader, None)) => Step::Refuse { leader: leader.chars().take(200).collect() },
            Some((_, Some(_))) | None => Step::Wait,
        };
        self.hops = 0;
        // Who said Welcome before may be about to do so again.
        if !worth_another_try || leader.is_some() {
            self.leader = None;
            self.next = (self.next + 1).checked_rem(self.named.len()).unwrap_or_default();
        }
        step
    }

    /// The address of a leader, if it may be spoken to.
    fn acceptable(&self, leader: &str) -> Option<Uri> {
        let scheme = self.named.first()?.scheme_str()?;
        let uri: Uri = format!("{scheme}://{leader}").parse().ok()?;
        // Nothing but a host and a port.
        let plain = uri.port_u16().is_some() && uri.authority()?.as_str() == leader && !leader.contains('@');
        let safe = scheme == "https" || self.insecure || is_loopback(uri.host()?);
        (plain && safe).then_some(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(named: &[&str]) -> Servers {
        Servers::new(named.iter().map(|text| text.parse().unwrap()).collect(), false)
    }

    #[test]
    fn servers_are_asked_one_after_the_other_and_one_that_welcomed_us_twice() {
        let mut servers = servers(&["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        let mut asked = |welcomed: bool| {
            let port = servers.address().port_u16().unwrap();
            if welcomed {
                servers.welcomed();
            }
            assert_eq!(servers.over(None), Step::Wait);
            port
        };
        let [yes, no] = [true, false];
        assert_eq!([no, no, yes, no, no].map(&mut asked), [1, 2, 1, 1, 2]);
    }

    #[test]
    fn after_one_that_fell_silent_the_next_is_asked() {
        let mut servers = servers(&["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        servers.welcomed();
        servers.fell_silent();
        assert_eq!(servers.over(None), Step::Wait);
        assert_eq!(servers.address().port_u16(), Some(2));
    }

    #[test]
    fn a_leader_is_followed_three_times_in_a_row() {
        let mut servers = servers(&["http://127.0.0.1:1", "http://127.0.0.1:9"]);
        for port in 2..5 {
            assert_eq!(servers.over(Some(&format!("127.0.0.1:{port}"))), Step::Follow);
            assert_eq!(servers.address().port_u16(), Some(port));
        }
        assert_eq!(servers.over(Some("127.0.0.1:5")), Step::Wait);
        assert_eq!(servers.address().port_u16(), Some(9), "then it is the next one's turn");
        assert_eq!(servers.over(Some("127.0.0.1:2")), Step::Follow, "and there are three again");
    }

    #[test]
    fn a_leader_that_welcomed_us_is_asked_again_and_then_the_list() {
        let mut servers = servers(&["http://127.0.0.1:1"]);
        assert_eq!(servers.over(Some("127.0.0.1:2")), Step::Follow);
        servers.welcomed();
        assert_eq!(servers.over(None), Step::Wait);
        assert_eq!(servers.address().port_u16(), Some(2));
        assert_eq!(servers.over(None), Step::Wait);
        assert_eq!(servers.address().port_u16(), Some(1));
    }

    #[test]
    fn a_server_that_names_itself_is_not_followed() {
        let mut servers = servers(&["http://127.0.0.1:1", "http://127.0.0.1:2"]);
        assert_eq!(servers.over(Some("127.0.0.1:1")), Step::Wait);
        assert_eq!(servers.address().port_u16(), Some(2));
    }

    #[test]
    fn a_leader_elsewhere_is_spoken_to_with_tls_only() {
        let refused = |leader: &str| Step::Refuse { leader: leader.to_owned() };
        for bad in
            ["10.0.0.5:7070", "control.example:7070", "127.0.0.1", "u@127.0.0.1:1", "127.0.0.1:1/x", ""]
        {
            assert_eq!(servers(&["http://127.0.0.1:1"]).over(Some(bad)), refused(bad), "{bad:?}");
        }
        let mut over_tls = servers(&["https://control-1.example:7070"]);
        assert_eq!(over_tls.over(Some("control-2.example:7070")), Step::Follow);
        assert_eq!(over_tls.address().to_string(), "https://control-2.example:7070/");
        let mut insecure = Servers::new(vec!["http://10.0.0.4:7070".parse().unwrap()], true);
        assert_eq!(insecure.over(Some("10.0.0.5:7070")), Step::Follow);
    }
}
