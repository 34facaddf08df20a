#include "engine/http/request_head.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paddle::http {
namespace {

unsigned status_of(const std::string& fields, const std::string& version = "1.1") {
  const auto fault = find_fault(fmt::format("POST /v1/predict HTTP/{}\r\n{}\r\n", version, fields));
  return fault ? fault->status : 200;
}

TEST(RequestHead, OrdinaryOnesAreRight) {
  EXPECT_EQ(status_of("Host: localhost\r\n"), 200U);
  EXPECT_EQ(status_of("Host:\r\n"), 200U);
  EXPECT_EQ(status_of("host: a\r\nContent-Length: 5\r\nX:a:b\r\nX: \r\n"), 200U);
  EXPECT_EQ(status_of("Host: a\r\nTransfer-Encoding: chunked\r\n"), 200U);
  EXPECT_EQ(status_of("Host: a\r\ntransfer-encoding:\t CHUNKED \t\r\n"), 200U);
  EXPECT_EQ(status_of("", "1.0"), 200U) << "HTTP/1.0 needs no Host";
  EXPECT_EQ(status_of("Content-Length: 5\r\n", "1.0"), 200U);
}

TEST(RequestHead, ACodingThatAProxyMayFrameOtherwiseIsRefused) {
  for (const char* const coding : {"xchunked", "identity", "chunked, identity", "gzip, chunked",
                                   "chunked, chunked", "", "chunked;x=1", "chunked\v",
                                   "\x0b"
                                   "chunked"})
    EXPECT_EQ(status_of(fmt::format("Host: a\r\nTransfer-Encoding: {}\r\n", coding)), 501U)
        << coding;
  EXPECT_EQ(status_of("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
            501U);
  EXPECT_EQ(status_of("Transfer-Encoding: chunked\r\n", "1.0"), 400U);
  EXPECT_EQ(status_of("Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400U);
  EXPECT_EQ(status_of("Host: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n"), 400U);
  for (const char* const length : {"5, 5", "5,5", "+5", "-5", "0x5", "5 5", ""})
    EXPECT_EQ(status_of(fmt::format("Host: a\r\nContent-Length: {}\r\n", length)), 400U) << length;
}

TEST(RequestHead, LinesThatAreReadInTwoWaysAreRefused) {
  for (const char* const fields :
       {"Host: a\r\nTransfer-Encoding:\r\n chunked\r\n", "Host: a\r\nX: a\r\n\tb\r\n",
        " Host: a\r\n", "Host : a\r\n", "Host: a\r\nTransfer-Encoding : chunked\r\n",
        "Host: a\r\nno field\r\n", "Host: a\r\n: b\r\n", "Host: a\nX: b\r\n",
        "Host: a\r\nX: a\rb\r\n"})
    EXPECT_EQ(status_of(fields), 400U) << fields;
  EXPECT_EQ(status_of(std::string("Host: a\0b\r\n", 11)), 400U);
  EXPECT_EQ(find_fault("GET / HTTP/1.1")->status, 400U);
  EXPECT_EQ(find_fault("GET / HTTP/1.1\r\nHost: a")->status, 400U);
}

TEST(RequestHead, ThereIsOneHost) {
  EXPECT_EQ(status_of("Host: localhost\r\nHost: evil.com\r\n"), 400U);
  EXPECT_EQ(status_of("Host: localhost\r\nHOST: localhost\r\n"), 400U);
  EXPECT_EQ(status_of("X: y\r\n"), 400U);
}

TEST(RequestHead, ThereIsAtMostOneAuthorizationAndOneOrigin) {
  for (const char* const name : {"Authorization", "Origin"}) {
    const std::string one = fmt::format("Host: a\r\n{}: b\r\n", name);
    EXPECT_EQ(status_of(one), 200U) << name;
    EXPECT_EQ(status_of(one + lower(name) + ": c\r\n"), 400U) << name;
  }
}

TEST(RequestHead, ATargetMayNameTheServerToo) {
  std::string host = "a";
  EXPECT_EQ(path_of("/v1/predict?x=http://b/", host), "/v1/predict");
  EXPECT_EQ(path_of("*", host), "*");
  EXPECT_EQ(path_of("//b/v1/model", host), "//b/v1/model");
  EXPECT_EQ(host, "a");
  EXPECT_EQ(path_of("http://localhost:8500/v1/model?x", host), "/v1/model");
  EXPECT_EQ(host, "localhost:8500");
  EXPECT_EQ(path_of("HTTP://evil.com?/v1/model", host), "/");
  EXPECT_EQ(host, "evil.com") << "the Host field does not count beside it";
  EXPECT_EQ(path_of("http:///v1/model", host), "") << "it names no server";
}

TEST(RequestHead, AHostIsReadWhole) {
  for (const char* const host : {"localhost", "LOCALHOST:8500", "127.0.0.1", "127.9.9.9:80",
                                 "[::1]", "[::1]:8500", "localhost:"})
    EXPECT_TRUE(is_this_machine(host)) << host;
  for (const char* const host :
       {"", "[::1].evil.com", "[::1]evil.com", "[::1", "[]", "[127.0.0.1]", "::1",
        "localhost:80@evil.com", "localhost:80.evil.com", "localhost@evil.com", "localhost ",
        "localhost.evil.com", "127.0.0.1.evil.com", "127.1", "10.0.0.1", ":80", "[::1]:8 0",
        "localhost:80:80"})
    EXPECT_FALSE(is_this_machine(host)) << host;
}

TEST(RequestHead, AMediaTypeIsInAnyCaseAndWithoutParameters) {
  EXPECT_EQ(media_type("Application/JSON"), "application/json");
  EXPECT_EQ(media_type(" application/json ; charset=utf-8"), "application/json");
  EXPECT_EQ(media_type("APPLICATION/X-NDJSON;a=b;c"), "application/x-ndjson");
  EXPECT_EQ(media_type(""), "");
}

}  // namespace
}  // namespace paddle::http
