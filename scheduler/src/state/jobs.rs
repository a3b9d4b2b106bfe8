//! All live jobs. Millions may wait, of which few are looked at before it is their turn: those that were not looked at for
//! long are packed. Whoever asks for one gets it whole; that it was unpacked for him is remembered, and those that are
//! whole for longest are packed again, some at the end of each turn.

use std::{
    cmp::Ordering,
    collections::VecDeque,
    fmt,
    ops::Deref,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::{
    JobEntry,
    packed::{Packed, Shared},
};
use crate::{ids::JobId, place::index::Bits, sorted::Sorted, time::Now};

/// At most so many are packed at the end of one turn; a turn makes fewer than that whole.
const PACKED_AT_ONCE: usize = 8192;
/// Places of one chunk.
const CHUNK: usize = 512;

/// See the module.
#[derive(Default)]
pub(crate) struct Jobs {
    places: Sorted<Placed>,
    /// In chunks, so that growing copies nothing and wastes little.
    chunks: Vec<Vec<Place>>,
    /// Places of nobody.
    free: Vec<u32>,
    /// What packed jobs have in common.
    shared: Shared,
    /// Places that were made whole, the longest so first. Some may be packed, or empty, by now.
    whole: VecDeque<u32>,
    /// Those that stand in that list.
    listed: Bits,
    /// Places that were made whole for a reader since the end of the last turn.
    read: Mutex<Vec<u32>>,
}

/// Where a job is. Ordered by the job.
#[derive(Debug, Clone, Copy)]
struct Placed {
    id: JobId,
    at: u32,
}

/// Of one job: packed, whole, or both if it was only looked at. Of nobody: neither.
#[derive(Debug, Clone, Default)]
struct Place {
    packed: Option<Packed>,
    whole: OnceLock<Box<JobEntry>>,
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Placed {}

/// A job, lent by the table or unpacked for this look alone.
pub(crate) enum Seen<'a> {
    Lent(&'a JobEntry),
    Copied(Box<JobEntry>),
}

impl Deref for Seen<'_> {
    type Target = JobEntry;

    fn deref(&self) -> &JobEntry {
        match self {
            Self::Lent(entry) => entry,
            Self::Copied(entry) => entry,
        }
    }
}

impl Jobs {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn contains_key(&self, id: &JobId) -> bool {
        self.at(id).is_some()
    }

    fn at(&self, id: &JobId) -> Option<u32> {
        self.places.get(&Placed { id: *id, at: 0 }).map(|placed| placed.at)
    }

    /// A place was made whole.
    fn list(&mut self, at: u32) {
        if !self.listed.contains(at) {
            self.listed.put(at, true);
            self.whole.push_back(at);
        }
    }

    fn place(&self, at: u32) -> Option<&Place> {
        let at = at as usize;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    fn place_mut(&mut self, at: u32) -> Option<&mut Place> {
        let at = at as usize;
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    pub(crate) fn get(&self, id: &JobId) -> Option<&JobEntry> {
        let at = self.at(id)?;
        let place = self.place(at)?;
        if let Some(entry) = place.whole.get() {
            return Some(entry);
        }
        let packed = place.packed.as_ref()?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).push(at);
        Some(place.whole.get_or_init(|| Box::new(packed.unpack(*id))))
    }

    /// When a job came to wait where it waits. It is not made whole for that.
    pub(crate) fn since(&self, id: &JobId) -> Option<Now> {
        let place = self.place(self.at(id)?)?;
        let whole = place.whole.get().map(|entry| entry.since);
        whole.or_else(|| place.packed.as_ref().map(Packed::since))
    }

    pub(crate) fn get_mut(&mut self, id: &JobId) -> Option<&mut JobEntry> {
        let at = self.at(id)?;
        let place = self.place_mut(at)?;
        if let Some(packed) = place.packed.take() {
            place.whole.get_or_init(|| Box::new(packed.unpack(*id)));
        }
        self.list(at);
        self.place_mut(at)?.whole.get_mut().map(Box::as_mut)
    }

    pub(crate) fn insert(&mut self, id: JobId, entry: JobEntry) {
        let at = self.at(&id).or_else(|| self.free.pop()).unwrap_or_else(|| self.grow());
        self.places.insert(Placed { id, at });
        if let Some(place) = self.place_mut(at) {
            *place = Place { packed: None, whole: OnceLock::from(Box::new(entry)) };
        }
        self.list(at);
    }

    /// A new place.
    fn grow(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let within = self.chunks.last_mut().map_or(0, |chunk| {
            chunk.push(Place::default());
            chunk.len() - 1
        });
        u32::try_from(before + within).unwrap_or(u32::MAX)
    }

    pub(crate) fn remove(&mut self, id: &JobId) -> Option<JobEntry> {
        let at = self.places.remove(&Placed { id: *id, at: 0 })?.at;
        self.free.push(at);
        let place = self.place_mut(at)?;
        let (packed, whole) = (place.packed.take(), place.whole.take());
        whole.map(|entry| *entry).or_else(|| Some(packed?.unpack(*id)))
    }

    /// All of them, by id. Nothing is made whole for longer than this look.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&JobId, Seen<'_>)> {
        self.places.iter().filter_map(|placed| self.see(placed))
    }

    /// As [`Jobs::iter`], from the one on that follows this id, whether or not there is a job with it.
    pub(crate) fn after(&self, id: JobId) -> impl Iterator<Item = (&JobId, Seen<'_>)> {
        self.places.after(&Placed { id, at: 0 }).filter_map(|placed| self.see(placed))
    }

    fn see<'a>(&'a self, Placed { id, at }: &'a Placed) -> Option<(&'a JobId, Seen<'a>)> {
        let place = self.place(*at)?;
        let seen = match place.whole.get() {
            Some(entry) => Seen::Lent(entry),
            None => Seen::Copied(Box::new(place.packed.as_ref()?.unpack(*id))),
        };
        Some((id, seen))
    }

    /// As [`Jobs::iter`].
    pub(crate) fn values(&self) -> impl Iterator<Item = Seen<'_>> {
        self.iter().map(|(_, entry)| entry)
    }

    /// A turn is over: those that are whole for longest are packed, if there are more than so many.
    pub(crate) fn settle(&mut self, most_whole: u32) {
        for at in std::mem::take(self.read.get_mut().unwrap_or_else(PoisonError::into_inner)) {
            if self.place(at).is_some_and(|place| place.whole.get().is_some()) {
                self.list(at);
            }
        }
        for _ in 0..PACKED_AT_ONCE {
            if self.whole.len() <= most_whole as usize {
                return;
            }
            let Some(at) = self.whole.pop_front() else { return };
            self.pack(at);
        }
    }

    /// Packs a job that waits. One that runs is looked at with every report; it is listed again when it changes.
    fn pack(&mut self, at: u32) {
        let Self { chunks, shared, listed, .. } = self;
        let (chunk, within) = (at as usize / CHUNK, at as usize % CHUNK);
        let Some(place) = chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(within)) else { return };
        listed.put(at, false);
        if !place.whole.get().is_some_and(|entry| entry.job.state.is_waiting()) {
            return;
        }
        if let Some(entry) = place.whole.take()
            && place.packed.is_none()
        {
            place.packed = Some(Packed::new(*entry, shared));
        }
    }
}

impl Clone for Jobs {
    fn clone(&self) -> Self {
        Self {
            places: self.places.clone(),
            chunks: self.chunks.clone(),
            free: self.free.clone(),
            shared: self.shared.clone(),
            whole: self.whole.clone(),
            listed: self.listed.clone(),
            read: Mutex::new(self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }
}

/// What it holds, however it holds it.
impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(id, entry)| (id, format!("{:?}", *entry)))).finish()
    }
}
