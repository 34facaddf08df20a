// Checks the head of a request for forms that RFC 9112 forbids and HTTP parsers read differently.
// Where a proxy and a server differ, a client can hide one request in another: such a head is
// refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paddle::http {

struct HeadFault {
  unsigned status = 400;  // or 501 for an unknown coding
  std::string message;
};

// `head` is the request line and the fields, with the empty line at the end. Empty unless it has:
//   a field over several lines, or with a blank before its colon; a line end that is not CR LF;
//   several Host fields, or none in HTTP/1.1; several Authorization or Origin fields;
//   a Transfer-Encoding in HTTP/1.0, one beside Content-Length, or another one than `chunked`;
//   several Content-Length fields, or one that is not only digits.
std::optional<HeadFault> find_fault(std::string_view head);

// The path of a request's target, up to a '?'. For "http://localhost:8500/v1/model" it is
// "/v1/model", and `host` becomes "localhost:8500", in place of the Host field.
std::string path_of(std::string_view target, std::string& host);

// Behind the first '?' of a target; "" if it has none.
std::string query_of(std::string_view target);

// In lower case, of ASCII.
std::string lower(std::string_view text);

// Whether the Host field is a name or an address, with or without a port, of this machine's
// loopback: "localhost:8500", "127.0.0.1", "[::1]:80".
bool is_this_machine(std::string_view host);

// The type and subtype of a Content-Type field, in lower case, without its parameters.
std::string media_type(std::string_view content_type);

}  // namespace paddle::http
