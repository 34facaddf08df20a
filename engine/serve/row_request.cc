#include "engine/serve/row_request.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "engine/data/records/json_object.h"

namespace paddle::serve {

Result<RowRequest> parse_row_request(std::string_view text, const data::Dictionary& dictionary) {
  using nlohmann::json;
  constexpr const char* kHint = R"(for example {"parameter":"_proj","ids":[3,7]})";
  const auto all = data::parse_json_object(text);
  if (!all) return Error{Errc::kData, all.error().message, kHint};
  RowRequest request;
  for (const auto& [key, value] : all->items()) {
    if (key == "parameter" && value.is_string()) {
      request.parameter = value.get<std::string>();
      continue;
    }
    const bool is_ids = key == "ids", is_words = key == "words" && dictionary.size() > 0;
    if ((!is_ids && !is_words) || !value.is_array()) {
      return Error{Errc::kData, fmt::format("'{}' is not expected", escape_control(key)), kHint};
    }
    for (const json& each : value) {
      if (is_ids && each.is_number_unsigned()) {
        request.ids.push_back(each.get<std::uint64_t>());
      } else if (is_words && each.is_string()) {
        request.ids.push_back(dictionary.id(each.get_ref<const std::string&>()));
      } else {
        return Error{Errc::kData, fmt::format("'{}' must be a list of {}", key,
                                              is_ids ? "whole numbers from 0" : "words")};
      }
    }
  }
  return request;
}

}  // namespace paddle::serve
