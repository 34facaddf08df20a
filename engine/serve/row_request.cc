#include "engine/serve/row_request.h"

#include <fmt/format.h>

#include "base/text.h"
#include "engine/data/records/json_reader.h"

namespace paddle::serve {
namespace {

using data::JsonValue;

constexpr const char* kHint = R"(for example {"parameter":"_proj","ids":[3,7]})";

Error unexpected(std::string_view key) {
  return {Errc::kData, fmt::format("'{}' is not expected", escape_control(key)), kHint};
}

}  // namespace

Result<RowRequest> parse_row_request(std::string_view text, const data::Dictionary& dictionary) {
  enum Key : std::size_t { kIds, kParameter, kWords };
  data::JsonReader reader({"ids", "parameter", "words"});
  if (const Status read = reader.read(text); !read)
    return Error{Errc::kData, read.error().message, kHint};
  if (reader.unknown()) return unexpected(*reader.unknown());
  RowRequest request;
  if (const JsonValue* const parameter = reader.find(kParameter)) {
    if (!parameter->is_text()) return unexpected("parameter");
    request.parameter = parameter->text();
  }
  for (const Key key : {kIds, kWords}) {
    const JsonValue* const list = reader.find(key);
    if (list == nullptr) continue;
    const std::string& name = reader.keys()[key];
    if (!list->is_list() || (key == kWords && dictionary.size() == 0)) return unexpected(name);
    const JsonValue* each = list->items();
    for (std::size_t i = 0; i < list->size(); ++i, each = each->next()) {
      const auto id = key == kIds       ? each->whole()
                      : each->is_text() ? std::optional(dictionary.id(each->text()))
                                        : std::nullopt;
      if (!id) {
        return Error{Errc::kData, fmt::format("'{}' must be a list of {}", name,
                                              key == kIds ? "whole numbers from 0" : "words")};
      }
      request.ids.push_back(*id);
    }
  }
  return request;
}

}  // namespace paddle::serve
