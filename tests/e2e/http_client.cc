#include "tests/e2e/http_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace paddle::test {
namespace {

constexpr int kDeadline = 60'000;  // milliseconds

}  // namespace

HttpClient::HttpClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    fd_.reset();
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::read_some() {
  if (!fd_) return false;
  pollfd waiting{fd_.get(), POLLIN, 0};
  if (::poll(&waiting, 1, kDeadline) <= 0) return false;
  char buffer[65536];
  const ssize_t count = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
  if (count <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

std::optional<HttpReply> HttpClient::receive(bool is_head_only) {
  std::size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (!read_some()) return {};
  }
  HttpReply reply;
  const std::string head = received_.substr(0, end + 2);
  received_.erase(0, end + 4);
  if (!head.starts_with("HTTP/1.1 ")) return {};
  reply.status = std::stoi(head.substr(9, 3));
  for (std::size_t begin = head.find("\r\n") + 2; begin < head.size();) {
    const std::size_t line_end = head.find("\r\n", begin);
    const std::string line = head.substr(begin, line_end - begin);
    std::string name = line.substr(0, line.find(':'));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers[name] = line.substr(std::min(line.size(), line.find(':') + 2));
    begin = line_end + 2;
  }
  const auto length = reply.headers.find("content-length");
  const bool has_body = length != reply.headers.end() && !is_head_only;
  const std::size_t size = has_body ? std::stoul(length->second) : 0;
  while (received_.size() < size) {
    if (!read_some()) return {};
  }
  reply.body = received_.substr(0, size);
  received_.erase(0, size);
  return reply;
}

std::optional<HttpReply> HttpClient::ask(const std::string& method, const std::string& path,
                                         const std::string& body, const std::string& headers) {
  // A server that refuses the head may close before it has the body; its reply is there to read.
  send(http_request(method, path, body, headers));
  return receive(method == "HEAD");
}

std::string HttpClient::read_to(std::string_view text) {
  std::size_t at = 0, from = 0;
  while ((at = received_.find(text, from)) == std::string::npos) {
    from = received_.size() - std::min(received_.size(), text.size());
    if (!read_some()) return std::exchange(received_, {});
  }
  std::string read = received_.substr(0, at + text.size());
  received_.erase(0, read.size());
  return read;
}

bool HttpClient::is_closed(std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (std::chrono::steady_clock::now() < end) {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 100) <= 0) continue;
    if (!read_some()) return true;
  }
  return false;
}

std::string http_request(const std::string& method, const std::string& path,
                         const std::string& body, const std::string& headers) {
  const bool has_length =
      method == "POST" ? headers.find("Content-Length:") == std::string::npos : !body.empty();
  const std::string length =
      has_length ? fmt::format("Content-Length: {}\r\n", body.size()) : std::string();
  return fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}{}\r\n{}", method, path, length,
                     headers, body);
}

}  // namespace paddle::test
