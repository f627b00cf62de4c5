// Additions to registers, which v1model has to read and write.
#ifndef WEIR_REGISTERS_P4
#define WEIR_REGISTERS_P4

// Adds to a number of a register of 64 bits.
#define ADD(numbers, index, v) {                \
        bit<64> before_;                        \
        numbers.read(before_, index);           \
        numbers.write(index, before_ + (v));    \
    }

// The same of one whose halves are in registers of 32 bits.
#define ADD_HALVES(high, low, index, v) {              \
        bit<32> high_;                                  \
        bit<32> low_;                                   \
        high.read(high_, index);                        \
        low.read(low_, index);                          \
        bit<64> behind_ = (high_ ++ low_) + (v);        \
        high.write(index, behind_[63:32]);              \
        low.write(index, behind_[31:0]);                \
    }

#endif
