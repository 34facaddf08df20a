// A line of JSON from a node.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cli/console/json.h"

using namespace paddle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto fields = cli::read_flat_object(line);
  // A line without numbers that JSON cannot express has the same fields.
  const auto strict = cli::read_flat_object(cli::strict_json(line));
  PADDLE_CHECK(!fields || (strict && fields->size() == strict->size()));
  for (std::size_t i = 0; fields && i < fields->size(); ++i) {
    const cli::JsonField& field = fields->at(i);
    PADDLE_CHECK(field.key == strict->at(i).key);
    PADDLE_CHECK(field.value.index() == strict->at(i).value.index());
    const auto* const number = std::get_if<double>(&field.value);
    PADDLE_CHECK(number == nullptr || std::isfinite(*number));
  }
  return 0;
}
