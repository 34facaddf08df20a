#include "engine/http/request_head.h"

#include <arpa/inet.h>
#include <strings.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::http {
namespace {

constexpr std::string_view kHeadBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kHeadBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kHeadBlanks) - begin + 1);
}

struct Counts {
  std::size_t hosts = 0, lengths = 0, encodings = 0, authorizations = 0, origins = 0;
  std::string encoding;  // the last one
};

std::optional<HeadFault> count_field(std::string_view line, Counts& counts) {
  if (kHeadBlanks.find(line.front()) != std::string_view::npos)
    return HeadFault{400, "a header field spans several lines"};
  const std::size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos)
    return HeadFault{400, "a header line has no field name"};
  if (kHeadBlanks.find(line[colon - 1]) != std::string_view::npos)
    return HeadFault{400, "a header field has a blank before its colon"};
  const std::string name = lower(line.substr(0, colon));
  counts.hosts += name == "host" ? 1 : 0;
  counts.authorizations += name == "authorization" ? 1 : 0;
  counts.origins += name == "origin" ? 1 : 0;
  if (name == "content-length") {
    ++counts.lengths;
    const std::string_view length = trimmed(line.substr(colon + 1));
    if (length.empty() || length.find_first_not_of("0123456789") != std::string_view::npos)
      return HeadFault{400, "the Content-Length is not one number"};
  }
  if (name == "transfer-encoding") {
    ++counts.encodings;
    counts.encoding = lower(trimmed(line.substr(colon + 1)));
  }
  return {};
}

std::optional<HeadFault> judge(const Counts& counts, bool is_old) {
  if (counts.hosts > 1) return HeadFault{400, "there are several Host fields"};
  if (counts.hosts == 0 && !is_old) return HeadFault{400, "there is no Host field"};
  if (counts.authorizations > 1) return HeadFault{400, "there are several Authorization fields"};
  if (counts.origins > 1) return HeadFault{400, "there are several Origin fields"};
  if (counts.lengths > 1) return HeadFault{400, "there are several Content-Length fields"};
  if (counts.encodings == 0) return {};
  if (is_old) return HeadFault{400, "HTTP/1.0 has no Transfer-Encoding"};
  if (counts.lengths > 0)
    return HeadFault{400, "there are both a Transfer-Encoding and a Content-Length"};
  if (counts.encodings == 1 && counts.encoding == "chunked") return {};
  return HeadFault{501, fmt::format("the Transfer-Encoding '{}' is not supported; only chunked is",
                                    counts.encodings > 1 ? "of several fields"
                                                         : escape_control(counts.encoding))};
}

}  // namespace

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return made;
}

std::optional<HeadFault> find_fault(std::string_view head) {
  Counts counts;
  const std::size_t end = head.find("\r\n");
  if (end == std::string_view::npos) return HeadFault{400, "the request line is not terminated"};
  const bool is_old = head.substr(0, end).ends_with("HTTP/1.0");
  std::string_view rest = head.substr(end + 2);
  while (!rest.empty()) {
    const std::size_t line_end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, line_end);
    if (line_end == std::string_view::npos)
      return HeadFault{400, "a header line is not terminated"};
    if (line.empty()) break;
    if (auto fault = count_field(line, counts)) return fault;
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos)
      return HeadFault{400, "a header line does not end with CR LF"};
    rest.remove_prefix(line_end + 2);
  }
  return judge(counts, is_old);
}

std::string path_of(std::string_view target, std::string& host) {
  constexpr std::string_view kScheme = "http://";
  if (lower(target.substr(0, kScheme.size())) == kScheme) {
    target.remove_prefix(kScheme.size());
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0) return "";  // RFC 9110, 4.2.1: an empty host is invalid
    host = target.substr(0, end);
    target.remove_prefix(end);
    if (!target.starts_with('/')) return "/";
  }
  return std::string(target.substr(0, target.find('?')));
}

std::string query_of(std::string_view target) {
  const std::size_t at = target.find('?');
  return at == std::string_view::npos ? "" : std::string(target.substr(at + 1));
}

bool is_this_machine(std::string_view host) {
  const bool is_bracketed = host.starts_with('[');
  const std::size_t close = is_bracketed ? host.find(']') : 0;
  if (close == std::string_view::npos) return false;
  const std::size_t name_end = is_bracketed ? close + 1 : std::min(host.find(':'), host.size());
  std::string_view port = host.substr(name_end);
  if (port.starts_with(':')) {
    port.remove_prefix(1);
    if (port.find_first_not_of("0123456789") != std::string_view::npos) return false;
  } else if (!port.empty()) {
    return false;
  }
  const std::string name(is_bracketed ? host.substr(1, close - 1) : host.substr(0, name_end));
  in_addr four{};
  in6_addr six{};
  if (is_bracketed)
    return ::inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
  if (::inet_pton(AF_INET, name.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24U) == 127;
  return ::strcasecmp(name.c_str(), "localhost") == 0;
}

std::string media_type(std::string_view content_type) {
  return lower(trimmed(content_type.substr(0, content_type.find(';'))));
}

}  // namespace paddle::http
