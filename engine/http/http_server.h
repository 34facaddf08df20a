// An HTTP/1.1 server (RFC 9112) for a Service: keep-alive, with bounds on every size and time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/http/service.h"

namespace paddle::http {

struct HttpOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any that is free
  // At this number, an idle or slow connection of the source with the most connections is closed,
  // or the new connection gets 503.
  std::uint32_t connections_max = 1000;
  // The limit of one request's body. With 0, a POST without a length has no body (RFC 9112, 6.3)
  // and is the last request of its connection; otherwise it is refused.
  std::uint64_t body_bytes_max = 8U << 20U;
  std::uint64_t held_bytes_max = 256U << 20U;  // of all bodies and replies in progress
  // Limits for a client to send the head of a request, to send its body, and to take the reply, or
  // a part of a stream; for its next request to begin (idle_time); and for all requests to end
  // after stop() (drain_time). What the system's buffers hold counts as taken.
  std::chrono::milliseconds head_time{10'000}, body_time{30'000}, reply_time{30'000};
  std::chrono::milliseconds idle_time{60'000}, drain_time{30'000};
  std::string body_hint = {};  // to a client whose body is too large
  Fields fields = {};          // of every reply, also of refusals
};

class HttpServer {
 public:
  // Listens; the service must outlive the server. kResource: the port is taken.
  static Result<std::shared_ptr<HttpServer>> listen(const HttpOptions& options, Service& service);
  virtual ~HttpServer() = default;

  virtual std::uint16_t port() const = 0;
  // Serves on this thread until stop(), and then until all requests in progress are answered.
  // stop() ends all streams.
  virtual void run() = 0;
  // Any thread may call it.
  virtual void stop() = 0;
};

}  // namespace paddle::http
