// The head of a request to `paddle serve` or `paddlectl dashboard`, and the JSON of its body behind
// an empty line.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json_reader.h"
#include "engine/http/query.h"
#include "engine/http/request_head.h"
#include "engine/model/json_requests.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find("\r\n\r\n");
  const std::size_t head_bytes = end == std::string_view::npos ? size : end + 4;
  const std::string_view head = input.substr(0, head_bytes), body = input.substr(head_bytes);
  if (const auto fault = paddle::http::find_fault(head)) {
    PADDLE_CHECK((fault->status == 400 || fault->status == 501) && !fault->message.empty());
  }
  for (const std::string_view text : {head, body}) {
    const std::string_view line = text.substr(0, text.find('\r'));
    static_cast<void>(paddle::http::is_this_machine(line));
    static_cast<void>(paddle::http::media_type(line));
    static_cast<void>(paddle::http::query_values(line));
  }
  // Values follow each other, and each is somewhere in the body.
  paddle::serve::JsonValues values(body);
  paddle::JsonReader reader({"a", "b"});
  const char* after = body.data();
  while (true) {
    const auto value = values.next();
    if (!value || !*value) break;
    const std::string_view text = **value;
    PADDLE_CHECK(text.data() >= after && text.data() + text.size() <= body.data() + body.size());
    PADDLE_CHECK(values.number() > 0);
    after = text.data() + text.size();
    static_cast<void>(reader.read(text));
  }
  return 0;
}
