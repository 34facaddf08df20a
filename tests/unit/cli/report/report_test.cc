#include "cli/report/report.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/support/finished_job.h"

namespace paddle::cli {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string page_of(const test::FinishedJob& job, const std::string& share) {
  const auto made = make_report(job.folder.path(), "j", share);
  EXPECT_TRUE(made) << made.error().message;
  return made ? test::TemporaryFolder::read(made->page) : "";
}

TEST(ReportPage, HoldsTheJobAndNothingFromANodeBecomesMarkup) {
  const std::string page = page_of(test::FinishedJob(), "");
  EXPECT_EQ(count(page, "<script"), 2U) << "the job and the script that draws it";
  EXPECT_EQ(count(page, "</script"), 2U);
  for (const char* const hostile : {"<b>line", "<i>", "<u>", "\x1b", "alert(1)</script>", "<!--"}) {
    EXPECT_EQ(page.find(hostile), std::string::npos) << hostile;
  }
  EXPECT_EQ(count(page, R"(\u003cscript>alert(1)\u003c/script>\\x1b[2J\"'&)"), 2U)
      << "a warning in a log, and the configuration";
  EXPECT_NE(page.find("held-out cost 1.25, auc 0.75 (10 samples)"), std::string::npos);
}

TEST(ReportPage, IsSelfContainedAndItsPolicySaysSo) {
  std::string page = page_of(test::FinishedJob(), "");
  const std::string namespace_name = "http://www.w3.org/2000/svg";
  page.erase(page.find(namespace_name), namespace_name.size());
  for (const char* const outside :
       {"http://", "https://", "src=", "@import", "url(", "fetch(", "import("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(page.find("content=\"default-src 'none'; style-src 'sha256-"), std::string::npos);
  EXPECT_NE(page.find("; connect-src 'none'; "), std::string::npos);
  EXPECT_EQ(page.find("unsafe"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
}

TEST(ReportPage, TheLivePageAsksItsOwnServerAlone) {
  const auto page = live_page(Json::object({{"live", true}, {"cluster", "</script>"}}), "");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_NE(page->find("content=\"default-src 'none'; style-src 'sha256-"), std::string::npos);
  EXPECT_NE(page->find("; connect-src 'self'; "), std::string::npos);
  EXPECT_NE(page->find("new EventSource("), std::string::npos);
  EXPECT_EQ(count(*page, "</script"), 2U);
  EXPECT_EQ(page->find("{{"), std::string::npos);
}

TEST(ReportPage, ItsTemplateCanBeEditedWithoutACompiler) {
  const test::FinishedJob job;
  const std::string share = job.folder / "share";
  job.folder.write("share/templates/report/report.html",
                   "<title>{{title}}</title><b>{{script_hash}} {{script}} {{job}}</b>");
  job.folder.write("share/templates/report/report.js", "draw({{title}});");
  const std::string page = page_of(job, share);
  // printf 'draw({{title}});' | openssl dgst -sha256 -binary | base64
  EXPECT_TRUE(page.starts_with(
      "<title>j</title><b>sha256-r46pqgmXnJXH8A30PfuSwIvt/gis/pcmwJBAZZWRp1o= draw({{title}}); {"))
      << page;
  job.folder.write("share/templates/report/report.html", "\n{{titel}}");
  const auto wrong = make_report(job.folder.path(), "j", share);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "report.html:2: {{titel}} is unknown");
}

TEST(ReportPage, AFolderWithoutResultsIsNamed) {
  const test::TemporaryFolder folder;
  const auto made = make_report(folder.path(), "j", "");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::kUsage);
  folder.write("k/processes.jsonl", "");
  EXPECT_TRUE(make_report(folder.path(), "k", "")) << "a job of which nothing is known";
}

}  // namespace
}  // namespace paddle::cli
