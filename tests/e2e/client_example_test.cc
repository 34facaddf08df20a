// The program that docs/client.md shows, against a pserver.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/free_ports.h"
#include "tests/support/process.h"

namespace paddle::test {
namespace {

TEST(ClientExample, LearnsTheModelAndLetsThePserverEnd) {
  const TemporaryFolder folder;
  const int port = free_ports(1);
  Process pserver({PADDLE_PROGRAM, "pserver", fmt::format("--port={}", port), "--ports_num=1",
                   "--ports_num_for_sparse=0", "--num_gradient_servers=1"},
                  folder / "pserver.log");
  ASSERT_TRUE(pserver.prints("READY")) << pserver.output();
  Process example({CLIENT_EXAMPLE, fmt::format("127.0.0.1:{}", port)}, folder / "example.log");
  EXPECT_EQ(example.wait(), 0);
  EXPECT_TRUE(example.output().ends_with("\n3.00 -2.00 1.00\n"))
      << example.output();  // a warning first
  EXPECT_EQ(pserver.wait(), 0) << pserver.output();
}

TEST(ClientExample, SaysWhichPserverItCannotReach) {
  const TemporaryFolder folder;
  Process example({CLIENT_EXAMPLE, "127.0.0.1:none"}, folder / "example.log");
  EXPECT_EQ(example.wait(), 1);
  EXPECT_NE(example.output().find("'127.0.0.1:none'"), std::string::npos) << example.output();
}

TEST(ClientExample, IsTheOneThatItsPageShows) {
  const std::string folder = DOCS_FOLDER;
  const std::string page = TemporaryFolder::read(folder + "/client.md");
  const std::string program = TemporaryFolder::read(folder + "/client_example.cc");
  ASSERT_FALSE(program.empty());
  EXPECT_NE(page.find("```cpp\n" + program + "```\n"), std::string::npos);
}

}  // namespace
}  // namespace paddle::test
