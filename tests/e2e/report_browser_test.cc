// The report page in a headless browser, from a file, light and dark.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/report/report.h"
#include "tests/e2e/browser.h"
#include "tests/support/compared_jobs.h"
#include "tests/support/finished_job.h"
#include "tests/support/process.h"

namespace paddle::cli {
namespace {

namespace fs = std::filesystem;

// The output of the browser for one page.
std::string show(const test::TemporaryFolder& folder, const std::vector<std::string>& arguments,
                 const std::string& page) {
  std::vector<std::string> all{test::browser_program(),
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

// Lists what measured() finds in the frame, in an <ol>.
constexpr const char* kMeasureFrame = R"(
const frame = document.getElementById('frame');
frame.onload = () => {
  const list = document.createElement('ol');
  for (const one of measured(frame.contentDocument, frame.contentWindow)) {
    list.append(Object.assign(document.createElement('li'), {textContent: one}));
  }
  document.body.replaceChildren(list);
};
)";

class ReportInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (test::browser_program().empty())
      GTEST_SKIP() << "no chromium here: scripts/deps browser installs it";
    const auto made = make_report(job.folder.path(), "j", "");
    ASSERT_TRUE(made) << made.error().message;
    page = "file://" + made->page;
  }
  // The page in a frame of this width, for a browser's window is at least 500 pixels wide. As text:
  // what is wrong with it.
  std::string measured(int width) {
    std::string source = test::TemporaryFolder::read(job.folder / "j/report.html");
    for (auto at = source.find_first_of("&\""); at != std::string::npos;
         at = source.find_first_of("&\"", at + 1)) {
      source.replace(at, 1, source[at] == '&' ? "&amp;" : "&quot;");
    }
    const std::string file = folder.write(
        "frame.html", "<!doctype html><body><iframe id=\"frame\" height=\"4000\" width=\"" +
                          std::to_string(width) + "\" srcdoc=\"" + source + "\"></iframe><script>" +
                          test::kMeasured + kMeasureFrame + "</script></body>");
    const std::string dom = show(folder, {"--dump-dom"}, "file://" + file);
    const auto begin = dom.find("<ol>");
    const auto end = dom.find("</ol>", begin);
    return end == std::string::npos ? "nothing was measured: " + dom
                                    : dom.substr(begin, end - begin + 5);
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
  EXPECT_EQ(count(dom, "<svg class=\"chart\""), 3U) << "auc, cost, throughput";
  EXPECT_EQ(count(dom, "<polyline"), 7U) << "auc, cost and rate of two, and held-out data of two";
  EXPECT_EQ(count(dom, "<circle"), 6U) << "held-out auc and cost; a trainer of one log point";
  for (const char* const text : {">1,234,567</span>",
                                 ">5.0 MB</span>",
                                 ">50 MB</text>",
                                 ">lag 2 to 3</text>",
                                 ">3.0s</b>",
                                 ">3 trainers</b>",
                                 "trainer-1 on n-1 is slow: 100 examples/s, 10 % of",
                                 ">exited with code 6<",
                                 ">2023-11-14 22:13:20</span>",
                                 ">1.5s</text>",
                                 "class=\"bar marked\"",
                                 "seed = 1",
                                 ">0.75</b><span>best held-out auc, after pass 1; 0.75 "
                                 "after pass 2</span>",
                                 "paddlectl train --set a=1 w",
                                 ">A CPU &lt;b&gt;</span>",
                                 ">Debian 12, Linux 6.1</span>",
                                 "paddlectl and its engine 0.1.0",
                                 ">Tags: lr-test, b</p>",
                                 ">Note: &lt;b&gt;note&lt;/b&gt;</p>",
                                 "git commit: 0123456789ab (&lt;i&gt;, with changes)</p>",
                                 "<a href=\"node_0/train.log\">",
                                 "other trainers that the servers applied in between",
                                 "Traffic between machines was not sealed"}) {
    EXPECT_NE(dom.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(dom.find("Snapshots count"), std::string::npos) << "it saved none";
  EXPECT_EQ(dom.find("<i>"), std::string::npos) << "a node's name is no element";
  for (const char* const internal :
       {"{root}", "{incarnation}", "{again}", "undefined", "NaN", "../etc"}) {
    EXPECT_EQ(dom.find(internal), std::string::npos) << internal;
  }
}

TEST_F(ReportInABrowser, DrawsTheCurvesOfTheLastTest) {
  const std::string test =
      "{\"kind\":\"test\",\"pass\":4,\"batch\":9,\"samples\":10,\"cost\":1,\"auc\":0.8,"
      "\"calibration\":1.25,\"curve:roc:auc\":[0,0,0.25,0.5,0.5,0.75,1,1],"
      "\"curve:precision_recall:pr_auc\":[0,1,0.5,0.75,1,0.25],"
      "\"curve:calibration:calibration\":[0.02,0.01,0.04,0.05],"
      "\"curve:other:<b>\":[0,0,1,1],\"one_is_best\":\"calibration\",\"unix_ms\":1700000001600}\n";
  job.folder.write("j/node_0/metrics.jsonl", test);
  const auto made = make_report(job.folder.path(), "j", "");
  ASSERT_TRUE(made) << made.error().message;
  const std::string whole = show(folder, {"--dump-dom"}, page);
  const std::string dom = whole.substr(0, whole.find("<script"));
  for (const char* const text :
       {"aria-label=\"ROC\"", "aria-label=\"Precision and recall\"", "aria-label=\"Calibration\"",
        ">true positive rate, last test, after pass 5</small>", ">false positive rate</text>",
        ">by chance</span>", ">perfect</span>", ">1 is best</small>"}) {
    EXPECT_NE(dom.find(text), std::string::npos) << text;
  }
  const auto roc = dom.find("aria-label=\"ROC\"");
  const auto points = dom.find("points=\"", roc) + 8;
  const std::string line = dom.substr(points, dom.find('"', points) - points);
  EXPECT_EQ(count(line, " "), 3U) << "four points: " << line;
  EXPECT_EQ(count(dom, "<svg class=\"chart\""), 7U)
      << "auc, calibration, cost, throughput of the other trainer, and the three curves";
  const std::string found = measured(400);
  EXPECT_EQ(count(found, "<li>"), 1U) << found;
}

TEST_F(ReportInABrowser, OfManyPassesTheTableHasTheBestAndTheLast) {
  std::string metrics;
  for (int pass = 0; pass < 150; ++pass) {
    metrics += "{\"kind\":\"test\",\"pass\":" + std::to_string(pass) +
               ",\"batch\":9,\"samples\":10,\"cost\":1,\"auc\":" + (pass == 69 ? "0.9" : "0.8") +
               ",\"unix_ms\":1700000001600}\n";
  }
  job.folder.write("j/node_0/metrics.jsonl", metrics);
  const auto made = make_report(job.folder.path(), "j", "");
  ASSERT_TRUE(made) << made.error().message;
  const std::string whole = show(folder, {"--dump-dom"}, page);
  const std::string dom = whole.substr(0, whole.find("<script"));
  EXPECT_NE(dom.find("best held-out auc, after pass 70"), std::string::npos);
  EXPECT_NE(dom.find("the best and the last, 52 of 150"), std::string::npos);
  EXPECT_NE(dom.find("<span>70</span>"), std::string::npos) << "its row";
}

TEST_F(ReportInABrowser, IsReadableOnAPhoneAndOnAWideScreen) {
  for (const int width : {400, 700, 1400}) {
    const std::string found = measured(width);
    EXPECT_EQ(count(found, "<li>"), 1U) << width << ": " << found;
    EXPECT_NE(found.find(" texts, 7 charts"), std::string::npos) << width << ": " << found;
  }
}

// Jobs beside each other, in the same page.
class ComparisonInABrowser : public ReportInABrowser {
 protected:
  void SetUp() override {
    ReportInABrowser::SetUp();
    if (!page.empty()) compare_jobs(3);
  }
  void compare_jobs(int jobs) {
    std::vector<ComparedJob> all;
    for (int i = 0; i < jobs; ++i) {
      const std::string name = "job-" + std::to_string(i);
      test::write_ended_job(job.folder, {.name = name,
                                         .rate = "0." + std::to_string(i + 1),
                                         .auc = 0.5 + i / 100.0,
                                         .note = test::kEvilText});
      JobRecord record = *read_job_record(job.folder / name, name);
      record.run.git = {std::string(40, 'a'), test::kEvilText, true};
      record.run.tags = {test::kEvilText};
      record.run.note = test::kEvilText;
      all.push_back(compared_job(record));
    }
    const auto made = comparison_page(compare(std::move(all)), "");
    ASSERT_TRUE(made) << made.error().message;
    job.folder.write("j/report.html", *made);
  }
  std::string dom() {
    const std::string whole = show(folder, {"--dump-dom"}, page);
    return whole.substr(0, whole.find("<script"));
  }
};

TEST_F(ComparisonInABrowser, HasCurvesOverEachOtherAndTheBestMarked) {
  const std::string shown = dom();
  EXPECT_NE(shown.find("data-script=\"ran\""), std::string::npos) << "the page's policy admits it";
  EXPECT_EQ(count(shown, "<svg class=\"chart\""), 2U) << "auc and cost";
  EXPECT_EQ(count(shown, "<polyline"), 6U);
  EXPECT_EQ(count(shown, "<i class=\"s2\"></i>job-2"), 2U) << "a job has its own colour";
  for (const char* const text :
       {">3 jobs compared</h1>", ">optimizer.learning_rate</span>", ">0.3</span>",
        "class=\"best\" data-name=\"job-2\"><span>0.52, pass 2</span>", ">1m30s</span>",
        "&lt;script&gt;alert(1)&lt;/script&gt;"})
    EXPECT_NE(shown.find(text), std::string::npos) << text << "\n" << shown;
  for (const char* const wrong : {"undefined", "NaN", "<script>alert"})
    EXPECT_EQ(shown.find(wrong), std::string::npos) << wrong;
}

TEST_F(ComparisonInABrowser, ManyJobsAreRowsAndTheBestEightAreDrawn) {
  compare_jobs(10);
  const std::string shown = dom();
  EXPECT_EQ(count(shown, "<polyline"), 16U);
  EXPECT_NE(shown.find("held-out data, the best 8 of 10 jobs"), std::string::npos);
  EXPECT_NE(shown.find("data-name=\"job\"><span>job-9</span>"), std::string::npos) << shown;
}

TEST_F(ComparisonInABrowser, IsReadableOnAPhoneAndOnAWideScreen) {
  for (const int width : {400, 700, 1400}) {
    const std::string found = measured(width);
    EXPECT_EQ(count(found, "<li>"), 1U) << width << ": " << found;
    EXPECT_NE(found.find(" texts, 2 charts"), std::string::npos) << width << ": " << found;
  }
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
