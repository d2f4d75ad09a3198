//! The partition of a key, as Kafka's own clients choose it.

/// Returns the partition of a key among so many; `None` without a partition.
pub(super) fn partition_of(key: &str, partitions: usize) -> Option<i32> {
    let chosen = (murmur2(key.as_bytes()) & 0x7fff_ffff).checked_rem(u32::try_from(partitions).ok()?)?;
    i32::try_from(chosen).ok()
}

/// The hash by which Kafka's clients choose the partition of a key.
fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut words = key.chunks_exact(4);
    for word in words.by_ref() {
        let word = word.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ word >> 24).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash =
            (hash ^ rest.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    #[test]
    fn keys_have_the_hashes_of_other_clients() {
        // Of the tests of Apache Kafka and librdkafka.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), u32::from_ne_bytes(hash.to_ne_bytes()), "{key}");
        }
    }
}
