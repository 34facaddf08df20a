// The report page in a headless browser, from a file, light and dark.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/report/report.h"
#include "tests/support/finished_job.h"
#include "tests/support/process.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

std::string browser() {
  for (const char* const path : {"/usr/bin/chromium", "/usr/bin/chromium-headless-shell",
                                 "/usr/bin/chromium-browser", "/usr/bin/google-chrome"}) {
    if (fs::exists(path)) return path;
  }
  return "";
}

// The output of the browser for one page.
std::string show(const test::TemporaryFolder& folder, const std::vector<std::string>& arguments,
                 const std::string& page) {
  std::vector<std::string> all{browser(),
                               "--headless",
                               "--no-sandbox",
                               "--disable-gpu",
                               "--disable-dev-shm-usage",
                               "--no-first-run",
                               "--disable-background-networking",
                               "--hide-scrollbars",
                               "--window-size=1200,2400",
                               "--user-data-dir=" + (folder / "profile")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.push_back(page);
  const std::string output = folder / "output";
  fs::remove(output);
  test::Process run(all, output, {"PATH=/usr/bin:/bin", "HOME=" + folder.path()});
  const auto code = run.wait(std::chrono::seconds(80));
  EXPECT_TRUE(code && *code == 0) << run.output();
  return run.output();
}

class ReportInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (browser().empty()) GTEST_SKIP() << "no chromium here: scripts/deps browser installs it";
    const auto made = make_report(job.folder.path(), "j", "");
    ASSERT_TRUE(made) << made.error().message;
    page = "file://" + made->page;
  }
  // A screenshot, as the bytes of a PNG.
  std::string picture(const std::string& of, const std::vector<std::string>& more = {}) {
    const std::string file = folder / "picture.png";
    fs::remove(file);
    std::vector<std::string> arguments{"--screenshot=" + file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    show(folder, arguments, of);
    return test::TemporaryFolder::read(file);
  }

  test::FinishedJob job;
  test::TemporaryFolder folder;
  std::string page;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(ReportInABrowser, HasItsTextsAndItsScriptRunsAndNobodyElses) {
  const std::string whole = show(folder, {"--dump-dom"}, page);
  const std::string dom = whole.substr(0, whole.find("<script"));  // as drawn, without its sources
  EXPECT_NE(dom.find("data-script=\"ran\""), std::string::npos) << "the page's policy admits it";
  EXPECT_NE(dom.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
  EXPECT_NE(dom.find("held-out cost 1.2500, auc 0.75 (10 samples)"), std::string::npos);
  EXPECT_EQ(count(dom, "<svg class=\"chart\""), 3U) << "cost, throughput, auc";
  EXPECT_EQ(count(dom, "<polyline"), 5U) << "two trainers' cost and rate, and auc";
  EXPECT_EQ(count(dom, "<circle"), 2U) << "held-out costs";
  for (const char* const text :
       {">1,234,567</td>", ">5.0 MB</td>", ">50 MB</text>", ">lag 2 to 3</text>", ">3.0s</b>",
        ">3 trainers</b>", "trainer-1 on n-1 is slow: 100 examples/s, 10 % of",
        "class=\"bad\">exited with code 6", ">2023-11-14 22:13:20</td>", ">1.5s</text>",
        "class=\"bar marked\"", "seed = 1", "auc 0.75</td>"}) {
    EXPECT_NE(dom.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(dom.find("<i>"), std::string::npos) << "a node's name is no element";
}

TEST_F(ReportInABrowser, IsNoBlankPictureInLightNorInDark) {
  const std::string blank = picture("about:blank");
  const std::string light = picture(page);
  const std::string dark = picture(page, {"--blink-settings=preferredColorScheme=0"});
  ASSERT_GT(blank.size(), 0U);
  EXPECT_GT(light.size(), 4 * blank.size());
  EXPECT_GT(dark.size(), 4 * blank.size());
  EXPECT_NE(dark, light);
}

}  // namespace
}  // namespace paddle::cli
