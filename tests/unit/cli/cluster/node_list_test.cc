#include "cli/cluster/node_list.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

using Names = std::vector<std::string>;

TEST(NodeList, ExpandsWhatScontrolShowHostnamesDoes) {
  EXPECT_EQ(*expand_range("node[01-03,07]"), (Names{"node01", "node02", "node03", "node07"}));
  EXPECT_EQ(*expand_range("c433-[011,013]"), (Names{"c433-011", "c433-013"}));
  EXPECT_EQ(*expand_range("n[1]"), Names{"n1"});
  EXPECT_EQ(*expand_range("n[8-11]"), (Names{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(*expand_range("n[098-101]"), (Names{"n098", "n099", "n100", "n101"}));
  EXPECT_EQ(*expand_range("r[1-2]n[3,05]-ib"),
            (Names{"r1n3-ib", "r1n05-ib", "r2n3-ib", "r2n05-ib"}));
  EXPECT_EQ(*expand_range("[1-2]"), (Names{"1", "2"}));
  EXPECT_EQ(*expand_list("gpu[1,3],cpu[02-03]"), (Names{"gpu1", "gpu3", "cpu02", "cpu03"}));
  EXPECT_EQ(*expand_list("login, n[0-1].lab ,x"), (Names{"login", "n0.lab", "n1.lab", "x"}));
}

TEST(NodeList, StepsAreThoseOfClusterShell) {
  EXPECT_EQ(*expand_range("n[0-6/2]"), (Names{"n0", "n2", "n4", "n6"}));
  EXPECT_EQ(*expand_range("n[01-10/4,20]"), (Names{"n01", "n05", "n09", "n20"}));
}

TEST(NodeList, RefusesNonsenseAndTooMany) {
  for (const char* bad : {"n[1-",
                          "n]",
                          "n[2-1]",
                          "n[a-b]",
                          "n[]",
                          "n[1,]",
                          "n[,1]",
                          "n[1--2]",
                          "n[-1-2]",
                          "n[1-2-3]",
                          "n[1-3/0]",
                          "n[1-3/x]",
                          "n[[1-2]]",
                          "n[1-2]]",
                          "n[0-99999999999]",
                          "n[1-64]x[1-65]",
                          "n[99999999999999999999]",
                          "n[1 2]",
                          "[1:2]",
                          "n[1-4096,1]"}) {
    const auto names = expand_range(bad);
    ASSERT_FALSE(names) << bad;
    EXPECT_EQ(names.error().code, Errc::kUsage);
    EXPECT_NE(names.error().message.find("bad range in"), std::string::npos);
  }
  EXPECT_EQ(expand_range("n[1-64]x[1-64]")->size(), 4096U);
  EXPECT_FALSE(expand_list("a[1-4096],b"));
  EXPECT_FALSE(expand_range(std::string(20000, 'a') + "[1-2]"));
  EXPECT_FALSE(expand_range("a[1-2]" + std::string(2000, 'a'))) << "no name is that long";
}

TEST(NodeList, AddressesOfIPv6AreThemselves) {
  for (const char* address : {"2001:db8::1", "[2001:db8::1]", "[::1]:22", "fe80::1%eth0",
                              "me@[fe80::1%en-0]:22", "ssh://[::1]"}) {
    EXPECT_EQ(*expand_range(address), Names{address});
  }
  EXPECT_EQ(*expand_range("2001:db8::[1-2]"), (Names{"2001:db8::1", "2001:db8::2"}));
  EXPECT_EQ(*expand_list("[::1]:22,[::2]"), (Names{"[::1]:22", "[::2]"}));
  EXPECT_TRUE(is_ipv6("::"));
  for (const char* none : {"", "1", "1:2", "::g", "[::1]", "::1%", "::1%a b", "10.0.0.1", ":::"}) {
    EXPECT_FALSE(is_ipv6(none)) << none;
  }
}

TEST(NodeList, SplitsUserHostAndNumber) {
  const auto text_of = [](std::string_view word) {
    const HostWord host = split_host(word);
    return host.user + "|" + host.host + "|" + (host.has_number ? host.number : "-");
  };
  EXPECT_EQ(text_of("node1"), "|node1|-");
  EXPECT_EQ(text_of("me@node1:8"), "me|node1|8");
  EXPECT_EQ(text_of("alice@corp.example@node1"), "alice@corp.example|node1|-");
  EXPECT_EQ(text_of("CORP\\alice@node1:22"), "CORP\\alice|node1|22");
  EXPECT_EQ(text_of("2001:db8::1"), "|2001:db8::1|-");
  EXPECT_EQ(text_of("[2001:db8::1]"), "|2001:db8::1|-");
  EXPECT_EQ(text_of("me@[::1]:2222"), "me|::1|2222");
  EXPECT_EQ(text_of("[fe80::1%eth0]:22"), "|fe80::1%eth0|22");
  EXPECT_EQ(text_of("node1:"), "|node1|");
  EXPECT_EQ(text_of("ssh://me@node1:2222/"), "me|node1|2222");
  EXPECT_TRUE(split_host("ssh://[::1]:22").is_url);
  EXPECT_FALSE(split_host("node1:22").is_url);
  EXPECT_EQ(text_of("[::1]x"), "|[::1]x|-");
  EXPECT_EQ(text_of(""), "||-");
}

TEST(NodeList, ANodeIsNamedAfterItsHost) {
  EXPECT_EQ(node_name_of("node1.lab"), "node1.lab");
  EXPECT_EQ(node_name_of("2001:db8::1"), "2001-db8--1");
  EXPECT_EQ(node_name_of("::1"), "ip6--1");
  EXPECT_EQ(node_name_of("fe80::1%eth0"), "fe80--1-eth0");
}

TEST(NodeList, AnIPv4AddressNeedsNoBrackets) {
  const std::pair<const char*, const char*> cases[] = {{"[10.0.0.1]", "write 10.0.0.1"},
                                                       {"[10.0.0.1]:22", "write 10.0.0.1:22"},
                                                       {"me@[10.0.0.1]", "write me@10.0.0.1"}};
  for (const auto& [word, hint] : cases) {
    const auto names = expand_range(word);
    ASSERT_FALSE(names) << word;
    EXPECT_NE(names.error().message.find("only an IPv6 address"), std::string::npos);
    EXPECT_EQ(names.error().hint, hint);
  }
  EXPECT_EQ(expand_range("10.0.0.[1-2]")->size(), 2U);
}

TEST(NodeList, AHostfileMayEndItsLinesInAnyWay) {
  for (const char* const text :
       {"n1 slots=2\rn2\r", "n1 slots=2\rn2", "\xef\xbb\xbfn1 slots=2\rn2\r",
        "n1 slots=2\r\nn2\r\n", "n1 slots=2\nn2"}) {
    const auto entries = parse_hostfile(text, "hosts");
    ASSERT_TRUE(entries) << entries.error().message;
    ASSERT_EQ(entries->size(), 2U);
    EXPECT_EQ((*entries)[0].slots, 2U);
    EXPECT_EQ((*entries)[1].host, "n2");
  }
}

}  // namespace
}  // namespace paddle::cli
