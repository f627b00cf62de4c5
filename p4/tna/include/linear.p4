// CRCs for operands of stateful ALUs, which take a hash from the crossbar in the stage
// where it is made. The compiler leaves out the constant part of such a hash, that is
// what the CRC of zeros is: so these CRCs begin with zeros and are not complemented, and
// have no such part. The words in front of the message make up for it: with them,
// they are the CRCs of hash.p4, of messages of 8 bytes.
#ifndef WEIR_TNA_LINEAR_P4
#define WEIR_TNA_LINEAR_P4

#define LINEAR_CRC32_OF(name)                                                                            \
    CRCPolynomial<bit<32>>(32w0x04C11DB7, true, false, false, 32w0, 32w0) name##_polynomial;             \
    Hash<bit<32>>(HashAlgorithm_t.CUSTOM, name##_polynomial) name
#define LINEAR_CRC32C_OF(name)                                                                           \
    CRCPolynomial<bit<32>>(32w0x1EDC6F41, true, false, false, 32w0, 32w0) name##_polynomial;             \
    Hash<bit<32>>(HashAlgorithm_t.CUSTOM, name##_polynomial) name

// In front of a message, in a container: constants in a message would be left out.
#define IN_FRONT_OF_CRC32 32w0x09cd7a34
#define IN_FRONT_OF_CRC32C 32w0xcbe8e4f2

#endif
