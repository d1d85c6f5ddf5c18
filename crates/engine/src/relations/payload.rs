//! The payload of an edge.

use stook_catalogue::links::Link;
use stook_catalogue::record::{DecodeError, Decoder, put_value, put_varint};
use stook_catalogue::value::Value;

/// The payload of an edge: what it carries of a child.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildPayload {
    /// Which of the link's conditions it meets, a bit for each.
    pub conditions: u64,
    /// Its interval, if it has one.
    pub span: Option<(i64, i64)>,
    /// The values of the fields that rollups and coverages of the link need.
    pub fields: Vec<Value>,
}

impl ChildPayload {
    /// Encodes the payload.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 8 * self.fields.len());
        put_varint(&mut out, self.conditions);
        out.push(u8::from(self.span.is_some()));
        if let Some((start, stop)) = self.span {
            out.extend_from_slice(&start.to_le_bytes());
            out.extend_from_slice(&stop.to_le_bytes());
        }
        self.fields.iter().for_each(|value| put_value(&mut out, value));
        out
    }

    /// Decodes a payload.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn unpack(bytes: &[u8], link: &Link) -> Result<Self, DecodeError> {
        let mut input = Decoder { bytes };
        let conditions = input.varint()?;
        let span = if input.byte()? == 0 { None } else { Some((i64::from_le_bytes(input.array()?), i64::from_le_bytes(input.array()?))) };
        let fields = link.edge_fields.iter().map(|_| input.value(0)).collect::<Result<_, _>>()?;
        Ok(Self { conditions, span, fields })
    }

    /// Whether it meets the condition with this number.
    pub fn satisfies(&self, condition: usize) -> bool {
        self.conditions >> condition & 1 == 1
    }
}
