//! Every place of a message where a value can stand, from the descriptors.

use bytes::BufMut as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};

/// The messages of all packages.
pub(crate) fn pool() -> DescriptorPool {
    DescriptorPool::decode(tenure_proto::FILE_DESCRIPTOR_SET).expect("descriptors")
}

/// A field, by the fields that lead to it from the top of a message.
#[derive(Clone, Debug)]
pub(crate) struct Place(Vec<FieldDescriptor>);

/// All places of a message, outer ones first. Lists of messages count with their first entry, times are one value.
pub(crate) fn places(message: &MessageDescriptor) -> Vec<Place> {
    let mut all = Vec::new();
    below(message, &[], &mut all);
    all
}

fn below(message: &MessageDescriptor, before: &[FieldDescriptor], all: &mut Vec<Place>) {
    for field in message.fields() {
        let steps = [before, std::slice::from_ref(&field)].concat();
        all.push(Place(steps.clone()));
        if let Kind::Message(inner) = field.kind()
            && !field.is_map()
            && !inner.full_name().starts_with("google.protobuf.")
            // A part of a workflow holds parts: one of them stands for all.
            && !steps.iter().any(|step| *step.parent_message() == inner)
        {
            below(&inner, &steps, all);
        }
    }
}

impl Place {
    /// The field itself.
    pub(crate) fn field(&self) -> &FieldDescriptor {
        self.0.last().expect("a place has a field")
    }

    /// Its name in the table: `JobSpec.kind`.
    pub(crate) fn row(&self) -> String {
        let field = self.field();
        format!("{}.{}", field.parent_message().name(), field.name())
    }

    /// The names of the fields that lead to it.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(FieldDescriptor::name).collect()
    }

    /// As a refusal names it: `job.needs.slots[0].slot`.
    pub(crate) fn path(&self) -> String {
        let last = self.0.len() - 1;
        let entry = |(i, field): (usize, &FieldDescriptor)| {
            let index = if field.is_list() && i < last { "[0]" } else { "" };
            format!("{}{index}", field.name())
        };
        self.0.iter().enumerate().map(entry).collect::<Vec<_>>().join(".")
    }

    /// As the decoder names it, which counts no entries: `job.needs.slots.slot`, `body.held.token`.
    pub(crate) fn plain(&self) -> String {
        let name = |field: &FieldDescriptor| match field.containing_oneof() {
            // The decoder knows the choice, not what was chosen.
            Some(choice) if !choice.is_synthetic() => choice.name().to_owned(),
            Some(_) | None => field.name().to_owned(),
        };
        self.0.iter().map(name).collect::<Vec<_>>().join(".")
    }

    /// Sets or clears the value here, in the first entries of lists.
    pub(crate) fn set(&self, message: &mut DynamicMessage, value: Option<Value>) {
        let (last, before) = self.0.split_last().expect("a place has a field");
        let mut at = message;
        for step in before {
            let inner = at.get_field_mut(step);
            if let Value::List(entries) = inner
                && entries.is_empty()
            {
                let Kind::Message(kind) = step.kind() else { panic!("{step:?} is no message") };
                entries.push(Value::Message(DynamicMessage::new(kind)));
            }
            at = if let Value::List(entries) = inner { entries.first_mut() } else { Some(inner) }
                .and_then(Value::as_message_mut)
                .expect("a message, or a list of them");
        }
        match value {
            Some(value) => at.set_field(last, value),
            None => at.clear_field(last),
        }
    }

    /// These bytes as the content of the field, and its messages around it: added to a message, it is merged into it.
    pub(crate) fn wire(&self, kind: WireType, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (i, step) in self.0.iter().rev().enumerate() {
            let mut around = Vec::new();
            let kind = if i == 0 { kind } else { WireType::LengthDelimited };
            encode_key(step.number(), kind, &mut around);
            if kind == WireType::LengthDelimited {
                let content = if i == 0 { content } else { &bytes };
                encode_varint(content.len() as u64, &mut around);
                around.put(content);
            } else {
                around.put(content);
            }
            bytes = around;
        }
        bytes
    }

    /// How its values are encoded: the least of it, for lists of numbers.
    pub(crate) fn wire_type(&self) -> WireType {
        let field = self.field();
        if field.is_map() {
            return WireType::LengthDelimited;
        }
        match field.kind() {
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::SixtyFourBit,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::ThirtyTwoBit,
            Kind::String | Kind::Bytes | Kind::Message(_) => WireType::LengthDelimited,
            Kind::Int32
            | Kind::Int64
            | Kind::Uint32
            | Kind::Uint64
            | Kind::Sint32
            | Kind::Sint64
            | Kind::Bool
            | Kind::Enum(_) => WireType::Varint,
        }
    }
}
