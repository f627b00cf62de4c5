// The Internet checksum, incrementally (pipeline/header/checksum.go): a wrong one
// stays wrong.
#ifndef WEIR_CHECKSUM_P4
#define WEIR_CHECKSUM_P4

// checksum_update is header.ChecksumUpdate32: old and new are two adjacent words
// (RFC 1624, equation 3).
control checksum_update(inout bit<16> checksum, in bit<32> old, in bit<32> new) {
    apply {
        bit<32> inverse = ~old;
        bit<32> sum = (bit<32>)(~checksum) + (inverse >> 16) + (inverse & 0xffff) + (new >> 16) + (new & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        checksum = ~(bit<16>)sum;
    }
}

// decrement_ttl is header.IPv4.DecrementTTL: the word falls by 0x0100, so the stored
// complement rises by it (RFC 1624, 3).
control decrement_ttl(inout bit<8> ttl, inout bit<16> checksum) {
    apply {
        bit<32> sum = (bit<32>)checksum + 0x0100;
        sum = sum + (sum >> 16);
        checksum = sum[15:0];
        if (checksum == 0xffff) {
            checksum = 0;
        }
        ttl = ttl - 1;
    }
}

#endif
