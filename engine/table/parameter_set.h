// Validation of a ParameterSet, before anything is allocated for it, and comparison of two.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "proto/parameters.pb.h"

namespace paddle::parameter {

constexpr std::uint64_t kParameterElementsMax = 1ULL << 40U;  // in one dense parameter
constexpr int kParametersMax = 2048;  // their status at a pass's end fits into a frame's head
// Limit for numbers of batches, rounds, passes and samples; larger numbers are an error or an
// attack. Two numbers for each of 4,096 trainers fit into a frame's head.
constexpr std::uint64_t kCounterMax = 1ULL << 48U;
constexpr std::uint64_t kBatchSamplesMax = 1ULL << 24U;  // of one trainer
constexpr std::uint64_t kRowWidthMax = 1ULL << 20U;      // floats in one sparse row
constexpr std::size_t kParameterNameBytesMax = 200;      // leaves room for snapshot suffixes
constexpr std::uint32_t kEntryCountMax = 60'000;         // sightings, counted in 16 bits
constexpr int kSlotEntriesMax = 4096;                    // in one table
constexpr std::uint32_t kExpirePassesMax = 30'000;       // ages are 16 bits
constexpr std::uint32_t kShardsMax = 1U << 16U;          // for one kind, over all pservers
constexpr std::uint64_t kDenseBlocksMax = 1U << 20U;     // over all parameters
constexpr std::uint64_t kPlacementStepsMax = 1U << 28U;  // blocks x shards

// Elements of a dense parameter: the product of its dims. The spec must be valid.
std::uint64_t element_count(const wire::ParameterSpec& spec);
// Floats in one row: the product of all dims but the first (1 for a vector). The spec must be
// valid.
std::uint64_t row_width(const wire::ParameterSpec& spec);

// kUsage if the name cannot be a file name in a snapshot, because it contains a '/' or a control
// character or is one that snapshots use.
Status validate_name(const std::string& name);
// kUsage: bad name, dims or initial values.
Status validate(const wire::ParameterSpec& spec);
// kUsage: a bad parameter or optimizer, a name used twice, no shard for a kind of parameter that
// exists, or an explicit placement of an unknown dense parameter or on an unknown port.
Status validate(const wire::ParameterSet& set);

// Whether the trainers keep the dense parameters among themselves, on no shard.
bool has_group(const wire::ParameterSet& set);

// Gradients below this limit leave the values, and the squares that optimizers keep, finite.
float gradient_limit(const wire::ParameterSet& set);

// The first difference between this shard's set and a trainer's, with both values: "parameter
// 'fc.w0' has dims 32x10 here, 32x12 there"; "" if they are equal.
std::string parameter_difference(const wire::ParameterSet& here, const wire::ParameterSet& there);

}  // namespace paddle::parameter
