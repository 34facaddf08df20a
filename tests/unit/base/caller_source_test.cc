#include "base/caller_source.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <string>

#include <gtest/gtest.h>

namespace paddle {
namespace {

CallerSource source(const std::string& address) {
  sockaddr_storage storage{};
  auto* const caller = reinterpret_cast<sockaddr*>(&storage);
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  const bool is_v6 = address.find(':') != std::string::npos;
  storage.ss_family = is_v6 ? AF_INET6 : AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(1024 + address.size()));  // of both families
  void* const ip = is_v6 ? static_cast<void*>(&v6.sin6_addr) : &v4.sin_addr;
  EXPECT_EQ(::inet_pton(storage.ss_family, address.c_str(), ip), 1) << address;
  return source_of(caller);
}

TEST(CallerSourceTest, IsAnIPv4Address) {
  EXPECT_EQ(source("10.0.0.1"), source("10.0.0.1"));
  EXPECT_NE(source("10.0.0.1"), source("10.0.0.2"));
  EXPECT_NE(source("10.0.0.1"), source("11.0.0.1"));
  EXPECT_NE(source("127.0.0.1"), source("127.0.0.2"));
  EXPECT_EQ(source("::ffff:10.0.0.1"), source("10.0.0.1")) << "one listener may take both";
  EXPECT_NE(source("::ffff:10.0.0.1"), source("::ffff:10.0.0.2"));
}

TEST(CallerSourceTest, IsTheNetworkOfAnIPv6Address) {
  EXPECT_EQ(source("2001:db8::1"), source("2001:db8::2"));
  EXPECT_EQ(source("2001:db8::1"), source("2001:db8::ffff:ffff:ffff:ffff"));
  EXPECT_NE(source("2001:db8::1"), source("2001:db8:0:1::1"));
  EXPECT_NE(source("2001:db8::1"), source("2001:db9::1"));
  EXPECT_EQ(source("fe80::1"), source("fe80::2"));
}

TEST(CallerSourceTest, OfLoopbackIsNoneOfTheNetwork) {
  EXPECT_EQ(source("::1"), source("::1"));
  EXPECT_NE(source("::1"), source("::"));
  EXPECT_NE(source("::1"), source("::2"));
  EXPECT_NE(source("::1"), source("127.0.0.1"));
}

TEST(CallerSourceTest, OfOtherFamiliesIsOne) {
  sockaddr_un one{}, two{};
  one.sun_family = two.sun_family = AF_UNIX;
  one.sun_path[0] = '1';
  EXPECT_EQ(source_of(reinterpret_cast<const sockaddr*>(&one)),
            source_of(reinterpret_cast<const sockaddr*>(&two)));
}

}  // namespace
}  // namespace paddle
