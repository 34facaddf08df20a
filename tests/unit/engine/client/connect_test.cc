#include "engine/client/connect.h"

#include <gtest/gtest.h>

namespace paddle::client {
namespace {

TEST(ParseHostPort, TakesNamesAndAddressesWithAndWithoutAPort) {
  for (const auto& [text, host, port] :
       std::vector<std::tuple<std::string, std::string, std::uint32_t>>{
           {"node-1", "node-1", 7164},
           {"node-1:80", "node-1", 80},
           {"10.0.0.1:65535", "10.0.0.1", 65535},
           {"::1", "::1", 7164},
           {"[::1]", "::1", 7164},
           {"[fe80::2]:81", "fe80::2", 81}}) {
    const auto parsed = parse_host_port(text, 7164);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->host, host) << text;
    EXPECT_EQ(parsed->port, port) << text;
  }
  for (const char* const text : {"", ":80", "node:", "node:0", "node:65536", "node:8x", "[]:1"}) {
    const auto parsed = parse_host_port(text, 7164);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::kUsage);
  }
}

TEST(Connect, RefusesPortsBeyondTheLastOne) {
  const auto links =
      connect_links({.pservers = {"127.0.0.1:65535"}, .ports_num = 1, .ports_num_for_sparse = 1});
  ASSERT_FALSE(links);
  EXPECT_EQ(links.error().message, "2 ports starting at 65535 exceed the largest port, 65535");
}

TEST(Connect, BeyondLoopbackNeedsTheJobsSecret) {
  const auto links = connect_links({.pservers = {"192.0.2.1"}});
  ASSERT_FALSE(links);
  EXPECT_EQ(links.error().code, Errc::kAuth);
}

}  // namespace
}  // namespace paddle::client
