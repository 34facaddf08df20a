#include "engine/http/service.h"

#include <algorithm>

#include "base/json.h"

namespace paddle::http {

std::string_view value_of(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Fields::value_type::first);
  return found == fields.end() ? std::string_view() : found->second;
}

Reply refusal(unsigned status, const std::string& message, const std::string& hint) {
  JsonObject error;
  error.add("message", message);
  if (!hint.empty()) error.add("hint", hint);
  Reply reply{.status = status};
  reply.body = JsonObject().add("error", error).text() + "\n";
  if (status == 503) reply.retry_seconds = 1;
  return reply;
}

}  // namespace paddle::http
