//! The CRC that `.gnu_debuglink` states: CRC-32 as in zlib (reflected polynomial 0xedb88320), over the whole file.

/// One step of eight bytes needs the remainder of a byte at each of eight distances.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = (remainder >> 1) ^ (0xedb8_8320 & (remainder & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = remainder;
        byte += 1;
    }
    let mut distance = 1;
    while distance < 8 {
        byte = 0;
        while byte < 256 {
            let nearer = tables[distance - 1][byte];
            tables[distance][byte] = (nearer >> 8) ^ tables[0][(nearer & 0xff) as usize];
            byte += 1;
        }
        distance += 1;
    }
    tables
}

/// The CRC-32 of `bytes`.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let look_up = |distance: usize, byte: u32| TABLES[distance][(byte & 0xff) as usize];
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut crc = !0u32;
    for &[a, b, c, d, e, f, g, h] in eights {
        let low = crc ^ u32::from_le_bytes([a, b, c, d]);
        crc = look_up(7, low) ^ look_up(6, low >> 8) ^ look_up(5, low >> 16) ^ look_up(4, low >> 24);
        crc ^= look_up(3, e.into()) ^ look_up(2, f.into()) ^ look_up(1, g.into()) ^ look_up(0, h.into());
    }
    for &byte in rest {
        crc = (crc >> 8) ^ look_up(0, crc ^ u32::from(byte));
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_check_value_of_the_crc_catalogue_comes_out() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414f_a339);
    }
}
