// The interface between an HTTP server and the program whose paths it serves: a request, its reply,
// and a reply that goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paddle::http {

// Header fields of a message, in their order.
using Fields = std::vector<std::pair<std::string, std::string>>;

// The value of the first field of this name; "" if there is none.
std::string_view value_of(const Fields& fields, std::string_view name);

struct Request {
  std::string method, path, host, content_type, authorization, body;
  std::string content_encoding = {};
  std::string query = {};  // of the target, after its '?', as the client sent it
  Fields fields = {};      // all others; names in lower case
};

// The body of a reply that goes on until its client leaves, as server-sent events do. The server
// asks for the next part when the client has taken all before it. So each client costs one part,
// and a slow one gets fewer and newer parts. All calls come from the server's thread. The server
// lets go of the stream when the client has left or does not take a part within reply_time.
class Stream {
 public:
  virtual ~Stream() = default;
  // The next part; "": there is none yet, and the server asks again after a call of `wake`.
  virtual std::string next() = 0;
  // Called once, before next(). Any thread may call `wake`, also after the stream has ended.
  virtual void begin(std::function<void()> wake) = 0;
};

struct Reply {
  unsigned status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string allow = {};               // for 405: the methods of the path
  unsigned retry_seconds = 0;           // for 503
  Fields fields = {};                   // further ones; they replace those of HttpOptions
  std::shared_ptr<Stream> stream = {};  // in place of `body`; then the connection ends
};

// {"error":{"message":"line 3: ..","hint":".."}}
Reply refusal(unsigned status, const std::string& message, const std::string& hint = "");

// The server changes these, and any thread may read them.
struct ConnectionCounts {
  std::atomic<std::uint64_t> open = 0;
  std::atomic<std::uint64_t> refused = 0;  // beyond the limit
  std::atomic<std::uint64_t> evicted = 0;  // closed to make room for others
};

class Service {
 public:
  virtual ~Service() = default;
  // The reply to a request that its head alone rules out; empty if it is not refused.
  virtual std::optional<Reply> refuse(const Request& head) const = 0;
  // Calls `done` once, in this call or later in another thread. REQUIRES: refuse() returned nothing
  // for the request.
  virtual void answer(Request request, std::function<void(Reply)> done) = 0;
  virtual ConnectionCounts& connections() = 0;
};

}  // namespace paddle::http
