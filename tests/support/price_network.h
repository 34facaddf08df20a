// The smallest network for tests of everything else: a price, estimated from an area.
#pragma once

namespace paddle::test {

// Slots and layers of job.toml, behind [data] with format = "csv" and columns = ["area", "price"].
inline constexpr const char* kPriceNetwork = R"([[data.slot]]
name = "area"
type = "float"
[[data.slot]]
name = "price"
type = "float"
[[layer]]
name = "estimate"
type = "fc"
input = ["area"]
size = 1
[[layer]]
name = "cost"
type = "squared_error"
input = ["estimate"]
label = "price"
)";

}  // namespace paddle::test
