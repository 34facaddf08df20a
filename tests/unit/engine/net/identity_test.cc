#include "engine/net/identity.h"

#include <vector>

#include <gtest/gtest.h>

namespace paddle::net {
namespace {

TEST(Identity, WithoutAKeyFileOnlyLoopbackWorks) {
  const std::vector<std::string> here{"127.0.0.1", "127.8.9.1", "::1"};
  EXPECT_TRUE(job_keys("", here));
  for (const char* address : {"10.0.0.1", "0.0.0.0", "::", "128.0.0.1"}) {
    const std::vector<std::string> away{"127.0.0.1", address};
    const auto keys = job_keys("", away);
    ASSERT_FALSE(keys) << address;
    EXPECT_EQ(keys.error().code, Errc::kAuth);
    EXPECT_EQ(keys.error().message,
              std::string(address) + " is not a loopback address and there is no --key_file");
  }
}

TEST(Identity, APublicKeyIsWarnedOf) {
  const std::vector<std::string> here{"127.0.0.1"};
  testing::internal::CaptureStderr();
  EXPECT_TRUE(job_keys("", here));
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "no --key_file: any user of this machine may join the job"),
            std::string::npos);
}

TEST(Identity, AJobTagIsHexadecimalOrAHash) {
  EXPECT_EQ(job_tag_of("00ff"), 255U);
  EXPECT_NE(job_tag_of("job-a"), job_tag_of("job-b"));
}

TEST(Identity, AnInterfaceIsItsAddress) {
  EXPECT_EQ(*interface_address("lo"), "127.0.0.1");
  EXPECT_EQ(*interface_address("10.1.2.3"), "10.1.2.3");
  const auto none = interface_address("nosuch0");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no interface 'nosuch0' with an IP address");
}

TEST(Identity, NamesAreNotLookedUp) {
  EXPECT_EQ(*resolve_address("localhost"), "127.0.0.1");
  EXPECT_EQ(*resolve_address("::1"), "::1");
  EXPECT_EQ(resolve_address("node1.lab").error().code, Errc::kUsage);
}

}  // namespace
}  // namespace paddle::net
