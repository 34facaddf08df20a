// Parser of records whose slots are arrays of numbers.
#pragma once

#include <span>

#include "engine/config/data_config.h"
#include "engine/data/records/chunk.h"
#include "engine/data/records/class_names.h"
#include "engine/data/records/record_block.h"

namespace paddle::data {

// Appends a record of the chunk, whose slots are those of `data`. kData: an id is negative, or a
// float is none of float32; the caller drops the values left at the end of the block.
// `classes` are the names in the labels of each slot.
Status append_numbers(const config::DataConfig& data, std::span<const ClassNames> classes,
                      const Chunk& chunk, std::uint64_t record, RecordBlock& block);

// The value of a 16-bit float of IEEE 754.
float half_to_float(std::uint16_t bits);

}  // namespace paddle::data
