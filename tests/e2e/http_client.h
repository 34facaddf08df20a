// A connection to a server on loopback that speaks HTTP/1.1, or anything else.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/fd.h"

namespace paddle::test {

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);

  // False when the server has closed the connection.
  bool send(std::string_view bytes);
  // The next reply; nothing when the connection ends before it is whole. One to HEAD has no body.
  std::optional<HttpReply> receive(bool is_head_only = false);
  std::optional<HttpReply> ask(const std::string& method, const std::string& path,
                               const std::string& body = "", const std::string& headers = "");
  // All that comes up to `text` and with it, or until the connection ends.
  std::string read_to(std::string_view text);
  // Whether the server closes the connection, whatever it sends before, within a deadline.
  bool is_closed(std::chrono::seconds deadline);

 private:
  bool read_some();

  UniqueFd fd_;
  std::string received_;
};

std::string http_request(const std::string& method, const std::string& path,
                         const std::string& body = "", const std::string& headers = "");

}  // namespace paddle::test
