// A request for rows of a table, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/data/records/dictionary.h"

namespace paddle::serve {

struct RowRequest {
  std::string parameter;  // "": the only table
  std::vector<std::uint64_t> ids;
};

// {"parameter":"_proj","ids":[3,7],"words":["in"]}: ids first, then words, of which unknown ones
// are <unk> as in training. kData.
Result<RowRequest> parse_row_request(std::string_view text, const data::Dictionary& dictionary);

}  // namespace paddle::serve
