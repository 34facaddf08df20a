// The page of `paddlectl dashboard` in a headless browser: over a state that a test sets, and over
// a job that trains on this machine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/dashboard/dashboard_service.h"
#include "cli/report/report.h"
#include "tests/e2e/browser.h"
#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/support/fake_live.h"
#include "tests/support/running_server.h"

namespace paddle::cli {
namespace {

using test::Browser;

const std::string kToken = "abcdefghijklmnopqrstuvwxyz_-0123456789ABCDE";
const std::string kHostile = "<script>document.title='bad'</script>\"><img src=x onerror=alert(2)>";

// The JSON with the hostile text at each '@'.
std::string with_hostile(std::string json) {
  const std::string quoted = Json(kHostile).text();
  const std::string text = quoted.substr(1, quoted.size() - 2);
  for (std::size_t at = json.find('@'); at != json.npos; at = json.find('@', at + text.size()))
    json.replace(at, 1, text);
  return json;
}

std::string cluster_json(int extra_jobs = 0) {
  std::string jobs;
  for (int i = 0; i <= extra_jobs; ++i) {
    jobs += fmt::format(
        R"({}{{"job":"{}","state":"running@","is_running":true,"has_failed":false,"pass":1,)"
        R"("passes":4,"pass_done":0.5,"rate":1000,"cost":0.25,"left_ms":90000,)"
        R"("started_ms":1700000000000,"trainers":3,"pservers":1,"tags":["tag@"],"note":"note@",)"
        R"("git":"git@","stalled":[],"loss":{}}})",
        i == 0 ? "" : ",", i == 0 ? "digits" : fmt::format("job-{}@", i),
        i == 0 ? "null" : R"("node lost@")");
  }
  return with_hostile(
      R"({"unix_ms":1700000060000,"cluster":"lab@","nodes":[{"node":"n-0","state":"ready",)"
      R"("error":"","cores":8,"memory_bytes":16000000000},{"node":"n-1@","state":"unreachable",)"
      R"("error":"refused@","cores":null,"memory_bytes":null}],"jobs":[)" +
      jobs + "]}");
}

struct JobOptions {
  int trainers = 3;
  int pservers = 0;
  int points = 5;  // of each curve
  bool is_running = true;
};

std::string process_json(int i, const JobOptions& options) {
  // Trainer 1 is slow, and the others wait for it.
  const std::string role = i < options.trainers ? fmt::format("trainer-{}", i)
                                                : fmt::format("pserver-{}", i - options.trainers);
  const bool is_slow = i == 1;
  const std::string now = fmt::format(
      R"({{"state":"{}@","is_fault":false,"waits_for":"{}","pass":1,"pass_done":0.5,"batch":{},)"
      R"("cost":0.25,"rate":{},"heard_ms":100,"cores":1.5,"memory_bytes":1000000000,)"
      R"("in_per_s":1000000,"out_per_s":2000000}})",
      is_slow ? "computes" : "waits for trainer-1", is_slow ? "" : "trainer-1",
      1000 + options.points, is_slow ? 100 : 1000);
  return fmt::format(
      R"({{"node":"n-{}@","role":"{}","state":"running@","failed":false,)"
      R"("begun_ms":1700000000000,"started_ms":1700000000000,"ended_ms":{},"memory_bytes":0,)"
      R"("cpu_ms":0,"starts":{},"log":"","arguments":"@","examples":100,"rate":1000,)"
      R"("busy_rate":1000,"slow":{},"now":{}}})",
      i % 2, role, options.is_running ? 0 : 1700000050000, i == 2 ? 2 : 1, is_slow, now);
}

std::string job_json_text(const JobOptions& options = {}) {
  std::string processes, points;
  for (int i = 0; i < options.trainers + options.pservers; ++i)
    processes += (i == 0 ? "" : ",") + process_json(i, options);
  for (int i = 0; i < options.points; ++i)
    points += fmt::format("{}[{},{}]", i == 0 ? "" : ",", i * 10, 1.0 / (i + 1));
  return with_hostile(fmt::format(
      R"({{"job":"digits","configuration":"name = '@'","processes":[{0}],"slow":["slow@"],)"
      R"("curves":[{{"role":"trainer-0@","cost":[{1}],"rate":[{1}]}}],)"
      R"("evaluators":[{{"name":"auc@","higher_is_better":true,"one_is_best":false,)"
      R"("held_out":[[10,0.5]],"training":[{1}],"best":{{"value":0.5,"pass":0}},)"
      R"("last":{{"value":0.5,"pass":0}}}}],"test_curves":[{{"kind":"roc","name":"auc@","pass":0,)"
      R"("points":[[0,0],[0.5,0.75],[1,1]]}}],"progress":{{"pass":1,"passes":4,"pass_done":0.5}},)"
      R"("commands":[{{"unix_ms":1700000000000,"text":"paddlectl train @","version":"0.1.0@"}}],)"
      R"("machines":[{{"node":"n-0@","processor":"CPU@","cores":8,"memory_bytes":16000000000,)"
      R"("os":"os@","kernel":"6@","gpus":"@","agent_version":"@","price_per_hour":0,)"
      R"("currency":""}}],"tags":["tag@"],"note":"note@","git":"git@","passes_total":1,)"
      R"("passes":[{{"pass":0,"data":"held-out","examples":10,"cost":1,)"
      R"("evaluators":[{{"name":"auc@","value":0.5}}]}}],"ports":[],"lags":[],"events_total":1,)"
      R"("events":[{{"unix_ms":1700000010000,"role":"trainer-0@","text":"event@",)"
      R"("is_bad":true}}],"live":{{"running":{2},"stalls":["stall@"],"left_ms":90000,)"
      R"("loss":"loss@","broken_start":"broken@","diverged_to":1e9,)"
      R"("failure":{{"process":"trainer-0","cause":"cause@","hint":"@","lines":["first","line@"]}},)"
      R"("is_diverged":true,"unreachable":["n-1@"]}}}})",
      processes, points, options.is_running));
}

class DashboardInABrowser : public testing::Test {
 protected:
  void SetUp() override {
    if (test::browser_program().empty())
      GTEST_SKIP() << "no chromium here: scripts/deps browser installs it";
  }
  void TearDown() override {
    browser_.reset();
    stop();
  }
  // At the port of the former server, if there was one.
  void start(bool allow_changes = false) {
    const auto page = live_page(
        Json::object(
            {{"live", true}, {"cluster", "lab" + kHostile}, {"allow_changes", allow_changes}}),
        "");
    ASSERT_TRUE(page) << page.error().message;
    service_ = std::make_unique<DashboardService>(
        live_, DashboardOptions{.token = kToken, .page = *page, .allow_changes = allow_changes});
    ASSERT_NO_FATAL_FAILURE(server_.start(dashboard_server(port_), *service_));
    port_ = server_.port();
  }
  void stop() {
    server_.stop();
    service_.reset();
  }
  std::string home() const { return fmt::format("http://127.0.0.1:{}/{}/", port_, kToken); }
  // The browser, at a place of the page.
  Browser& browser_at(const std::string& place, int width = 1200) {
    browser_ = std::make_unique<Browser>();
    browser_->set_view(width, 900);
    browser_->open(home() + place);
    return *browser_;
  }
  void expect_no_complaints() const {
    for (const std::string& one : browser_->complaints()) ADD_FAILURE() << one;
    for (const std::string& url : browser_->requests())
      EXPECT_TRUE(url.starts_with(home()) || url == "about:blank") << url;
  }

  test::FakeLive live_;
  std::unique_ptr<DashboardService> service_;
  test::RunningServer server_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Browser> browser_;
};

constexpr const char* kJobIsDrawn =
    "document.querySelectorAll('#view-curves svg.chart').length === 3 && "
    "document.querySelector('#processes') !== null";

TEST_F(DashboardInABrowser, ShowsTheClusterAJobAndItsLog) {
  live_.put(cluster_json(2), job_json_text({.pservers = 1}));
  live_.set_log("one\nW1121 19:27:48.123456 trainer-0] two\n");
  start();
  Browser& browser = browser_at("");
  ASSERT_TRUE(browser.comes("document.querySelectorAll('#jobs tr').length === 4"));
  EXPECT_TRUE(browser.comes("document.querySelector('#jobs progress').value === 0.375"));
  EXPECT_TRUE(browser.comes("document.querySelectorAll('#nodes tr').length === 3"));
  EXPECT_NE(browser.evaluate("document.querySelectorAll('#jobs tr')[2].textContent")
                .find(kHostile + ", node lost" + kHostile),
            std::string::npos);
  EXPECT_EQ(browser.evaluate("document.querySelector('#banners').textContent"),
            "Node n-1" + kHostile + " does not answer.");
  browser.evaluate("document.querySelector('#jobs a').click()");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  EXPECT_EQ(browser.evaluate("document.activeElement.textContent"), "digits");
  EXPECT_NE(browser.evaluate("document.querySelector('#banners').textContent")
                .find("Training diverges: the cost is 1.000e9."),
            std::string::npos);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('svg .lane').length"), "1")
      << "three wait for trainer-1";
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('.waits .name').length"), "4");
  EXPECT_NE(browser.evaluate("document.querySelector('#view-work').textContent")
                .find("3 processes wait for trainer-1"),
            std::string::npos);
  browser.evaluate("document.querySelector('#processes a').click()");
  ASSERT_TRUE(browser.comes("document.querySelectorAll('#log .lines .warn').length > 0"));
  EXPECT_EQ(browser.evaluate("location.hash"), "#job=digits&log=trainer-0");
  browser.evaluate("history.back()");
  EXPECT_TRUE(browser.comes("document.querySelector('#log').hidden"));
  browser.evaluate("history.back()");
  EXPECT_TRUE(browser.comes("document.querySelectorAll('#jobs tr').length === 4"));
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, ACurveGrowsAndTheReaderKeepsPlaceFocusAndSelection) {
  live_.put(cluster_json(), job_json_text({.points = 5}));
  start();
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  browser.evaluate(
      "(() => { window.line = document.querySelector('#view-curves polyline');"
      "window.cell = document.querySelector('#processes tr:nth-child(3) td:nth-child(2)');"
      "document.querySelector('#processes a').focus(); scrollTo(0, 400);"
      "getSelection().selectAllChildren(cell); })()");
  const std::string selected = browser.evaluate("getSelection()");
  EXPECT_EQ(selected, "n-1" + kHostile);
  live_.put(cluster_json(), job_json_text({.points = 50}));
  EXPECT_TRUE(
      browser.comes("line.isConnected && line.getAttribute('points').split(' ').length === 50"));
  EXPECT_TRUE(browser.comes("document.querySelector('#processes').textContent.includes('1,050')"));
  EXPECT_EQ(browser.evaluate("getSelection()"), selected);
  EXPECT_EQ(browser.evaluate("document.activeElement.textContent"), "trainer-0");
  EXPECT_EQ(browser.evaluate("scrollY"), "400");
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, TextFromNodesIsNeverMarkup) {
  live_.put(cluster_json(1), job_json_text());
  live_.set_log(kHostile + "\n");
  start();
  for (const char* const place : {"", "#job=digits", "#job=digits&log=trainer-0"}) {
    Browser& browser = browser_at(place);
    ASSERT_TRUE(browser.comes("document.body.textContent.includes('tag<script>')")) << place;
    EXPECT_TRUE(browser.comes("document.querySelectorAll('img, main script').length === 0"));
    EXPECT_EQ(browser.evaluate("document.querySelectorAll('script').length"), "2") << place;
    EXPECT_NE(browser.evaluate("document.title"), "bad");
    expect_no_complaints();
  }
  EXPECT_TRUE(browser_->comes("document.querySelector('.lines').textContent.includes('onerror')"));
  for (const char* const field :
       {"n-1<", "refused<", "running<", "note<", "auc<", "event<", "stall<", "loss<", "broken<",
        "slow<", "waits for trainer-1<", "name = '<", "CPU<", "git<", "lab<"})
    EXPECT_TRUE(browser_->comes(fmt::format("document.body.textContent.includes(\"{}\")", field)))
        << field;
}

TEST_F(DashboardInABrowser, AServerThatComesBackIsFoundAgain) {
  live_.put(cluster_json(), job_json_text());
  start();
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  stop();
  ASSERT_TRUE(browser.comes(
      "document.querySelector('#banners').textContent.includes('is lost; trying again')"));
  EXPECT_EQ(browser.evaluate(kJobIsDrawn), "true") << "the page keeps what it shows";
  live_.put(cluster_json(), job_json_text({.points = 20, .is_running = false}));
  start();
  ASSERT_TRUE(browser.comes("!document.querySelector('#banners').textContent.includes('lost')"));
  EXPECT_TRUE(browser.comes(
      "document.querySelector('#banners').textContent.includes('The job has ended')"));
}

TEST_F(DashboardInABrowser, AReaderGoesBackInALongLogAndForwardToItsEnd) {
  std::string log;
  for (int i = 0; i < 40'000; ++i) log += fmt::format("line {:05}\n", i);
  live_.set_long_log(log, 64U << 10U);
  live_.put(cluster_json(), job_json_text());
  start();
  Browser& browser = browser_at("#job=digits&log=trainer-0");
  const auto shows_end = "document.querySelector('.lines').lastChild?.textContent === 'line 39999'";
  const auto are_in_order = [&] {
    return browser.evaluate(
        "(() => { const all = [...document.querySelectorAll('.lines > div')]"
        ".map(one => Number(one.textContent.slice(5)));"
        "return all.length > 5000 && all.every((n, i) => i === 0 || n === all[i - 1] + 1); })()");
  };
  ASSERT_TRUE(browser.comes(shows_end));
  const auto press = [&](const std::string& name) {
    browser.evaluate("document.querySelector('#log ." + name + "').click()");
  };
  press("earlier");
  ASSERT_TRUE(browser.comes("document.querySelector('#log .later') !== null"));
  const std::string first =
      browser.evaluate("document.querySelector('.lines').firstChild.textContent");
  EXPECT_LT(first, "line 12000") << "256 KiB before the shown ones";
  EXPECT_EQ(are_in_order(), "true");
  press("earlier");
  ASSERT_TRUE(
      browser.comes("document.querySelector('.lines').firstChild?.textContent === 'line 00000' && "
                    "document.querySelector('#log .later') !== null"));
  EXPECT_EQ(browser.evaluate("document.querySelector('#log .earlier') === null"), "true");
  for (int parts = 0; parts < 20 && browser.evaluate(shows_end) == "false"; ++parts) {
    const std::string last =
        browser.evaluate("document.querySelector('.lines').lastChild.textContent");
    press("later");
    ASSERT_TRUE(
        browser.comes("document.querySelector('.lines').lastChild.textContent !== '" + last + "'"));
    EXPECT_EQ(are_in_order(), "true");
  }
  EXPECT_EQ(browser.evaluate(shows_end), "true");
  EXPECT_TRUE(browser.comes("document.querySelector('#log .later') === null"));
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, AHiddenTabClosesItsConnectionAndGoesOnLater) {
  live_.put(cluster_json(), job_json_text({.points = 5}));
  start();
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  const auto set_hidden = [&](bool hidden) {
    browser.evaluate(fmt::format(
        "(() => {{ Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}});"
        "document.dispatchEvent(new Event('visibilitychange')); }})()",
        hidden));
  };
  set_hidden(true);
  EXPECT_EQ(browser.evaluate("stream === null"), "true");
  EXPECT_EQ(browser.evaluate("document.title"), "digits") << "no progress that stands still";
  live_.put(cluster_json(), job_json_text({.points = 50}));
  set_hidden(false);
  EXPECT_TRUE(browser.comes(
      "document.querySelector('#view-curves polyline').getAttribute('points').split(' ').length "
      "=== 50"));
  EXPECT_NE(browser.requests().back().find("events?job=digits&seen="), std::string::npos)
      << browser.requests().back();
  EXPECT_EQ(browser.evaluate("document.title"), "37 % digits");
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, AfterSilenceTheConnectionCountsAsLost) {
  live_.put(cluster_json(), job_json_text());
  start();
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  EXPECT_EQ(browser.evaluate("bannerBox.textContent.includes('is lost; trying again')"), "false");
  browser.evaluate(
      "(() => { window.EventSource = class { addEventListener() {} close() {} };"
      "const now = performance.now() + SILENCE_MS; performance.now = () => now; })()");
  EXPECT_TRUE(browser.comes("bannerBox.textContent.includes('is lost; trying again')"));
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, AFailedJobShowsItsCauseAndTheEndOfThatLog) {
  std::string cluster = cluster_json();
  const auto replace = [&](std::string_view from, std::string_view to) {
    cluster.replace(cluster.find(from), from.size(), to);
  };
  replace(R"("has_failed":false)", R"("has_failed":true)");
  replace("running", "failed: trainer-0 exited with code 1");
  std::string job = job_json_text({.is_running = false});
  const std::string_view works = R"("failed":false)";
  job.replace(job.find(works), works.size(), R"("failed":true)");
  live_.put(cluster, job);
  start();
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes("document.querySelector('.banner a') !== null"));
  EXPECT_EQ(browser.evaluate("document.querySelector('.banner:has(pre)').firstChild.data"),
            "The job has failed: cause" + kHostile + ". ");
  EXPECT_EQ(browser.evaluate("document.querySelector('.banner pre').textContent"),
            "first\nline" + kHostile);
  EXPECT_EQ(browser.evaluate("document.querySelector('.banner a').textContent"),
            "Log of trainer-0");
  EXPECT_EQ(browser.evaluate("document.querySelector('.banner a').hash"),
            "#job=digits&log=trainer-0");
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, OfManyProcessesThoseThatNeedALookAreShownFirst) {
  live_.put(cluster_json(), job_json_text({.trainers = 200}));
  start();
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('#processes tr').length"), "26");
  EXPECT_EQ(browser.evaluate("document.querySelector('#processes a').textContent"), "trainer-1");
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('.map .cell').length"), "200");
  browser.evaluate(
      "[...document.querySelectorAll('button')]"
      ".find(one => one.textContent === 'Show all 200 processes').click()");
  EXPECT_TRUE(browser.comes("document.querySelectorAll('#processes tr').length === 201"));
  browser.press("/");
  EXPECT_EQ(browser.evaluate("document.activeElement.id"), "filter-processes");
  for (const char* const key : {"-", "1", "9", "9"}) browser.press(key);
  EXPECT_TRUE(browser.comes("document.querySelectorAll('#processes tr').length === 2"));
  expect_no_complaints();
}

// Presses Tab through the whole page. Returns what the focus does not reach of what it could.
std::string unreached(Browser& browser) {
  browser.evaluate(
      "(() => { document.activeElement.blur(); scrollTo(0, 0); window.reached = new Set();"
      "window.wanted = () => [...document.querySelectorAll('a, button, input, select, "
      "[tabindex=\"0\"]')].filter(one => !one.disabled && one.checkVisibility()); })()");
  for (int i = 0; i < 100; ++i) {
    browser.press("Tab");
    if (browser.evaluate("(() => { const one = document.activeElement; const again = "
                         "reached.has(one); reached.add(one); return again; })()") == "true")
      break;
  }
  return browser.evaluate(
      "wanted().filter(one => !reached.has(one)).map(one => one.outerHTML).join()");
}

TEST_F(DashboardInABrowser, TheKeyboardReachesEverythingAndEscapeClosesTheLog) {
  live_.put(cluster_json(3), job_json_text());
  live_.set_log("one\n");
  start(true);
  Browser& browser = browser_at("");
  ASSERT_TRUE(browser.comes("document.querySelectorAll('#jobs tr').length === 5"));
  EXPECT_EQ(unreached(browser), "");
  browser.evaluate("location.hash = '#job=digits&log=trainer-0'");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  ASSERT_TRUE(browser.comes("document.querySelectorAll('.lines > div').length > 0"));
  EXPECT_EQ(unreached(browser), "");
  browser.press("/");
  EXPECT_EQ(browser.evaluate("document.activeElement.id"), "filter-log");
  browser.press("Escape");
  EXPECT_TRUE(browser.comes("document.querySelector('#log').hidden"));
  EXPECT_EQ(browser.evaluate("location.hash"), "#job=digits");
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, AStopIsAskedForTwice) {
  live_.put(cluster_json(), job_json_text());
  start(true);
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  const auto click = [&](const std::string& name) {
    browser.evaluate(
        fmt::format("[...document.querySelectorAll('button')]"
                    ".find(one => one.textContent === '{}').click()",
                    name));
  };
  click("Stop...");
  EXPECT_TRUE(browser.comes("document.querySelector('dialog').open"));
  EXPECT_TRUE(live_.asked().empty());
  click("Stop");
  EXPECT_TRUE(
      browser.comes("document.querySelector('dialog').textContent.includes('digits is stopping')"));
  click("Close");
  click("Restart...");
  click("Restart");
  EXPECT_TRUE(browser.comes(
      "document.querySelector('dialog [role=status]').textContent === 'digits is stopping'"));
  EXPECT_EQ(live_.asked(), (std::vector<std::string>{"stop digits ", "restart digits trainer-0"}));
  expect_no_complaints();
}

TEST_F(DashboardInABrowser, WithoutAllowChangesThereIsNoButtonForThem) {
  live_.put(cluster_json(), job_json_text());
  start(false);
  Browser& browser = browser_at("#job=digits");
  ASSERT_TRUE(browser.comes(kJobIsDrawn));
  EXPECT_EQ(browser.evaluate("/Stop|Restart/.test(main.textContent)"), "false");
}

TEST_F(DashboardInABrowser, IsReadableOnAPhoneAndOnAWideScreen) {
  live_.put(cluster_json(2), job_json_text({.trainers = 40}));
  live_.set_log(kHostile + std::string(300, 'x') + "\n");
  start(true);
  for (const int width : {400, 1000, 1600}) {
    Browser& browser = browser_at("", width);
    ASSERT_TRUE(browser.comes("document.querySelectorAll('#jobs tr').length === 4"));
    browser.evaluate("(() => {" + std::string(test::kMeasured) +
                     "window.measured = measured; })()");
    const std::string overview = browser.evaluate("measured(document, window).join('; ')");
    EXPECT_EQ(overview.find(';'), std::string::npos) << width << ": " << overview;
    browser.evaluate("location.hash = '#job=digits&log=trainer-0'");
    ASSERT_TRUE(browser.comes(kJobIsDrawn));
    ASSERT_TRUE(browser.comes("document.querySelectorAll('.lines > div').length > 0"));
    const std::string job = browser.evaluate("measured(document, window).join('; ')");
    EXPECT_EQ(job.find(';'), std::string::npos) << width << ": " << job;
    EXPECT_NE(job.find(" 5 charts"), std::string::npos) << job;
  }
}

// The cost's curve has more points than before, and so has the number of batches.
TEST_F(DashboardInABrowser, ACurveGrowsWhileALocalJobTrains) {
  test::LocalCluster cluster(1);
  cluster.copy_template("word2vec");
  const test::Outcome prepared =
      cluster.prepare("word2vec", {"--minimum", "1"}, test::chained_sentences(300));
  ASSERT_EQ(prepared.code, 0) << prepared.output;
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  test::Process train = cluster.start({"train", "--trainers", "2", "--pservers", "1", "--set",
                                       "train.passes=100000", "--name", "real", "word2vec"});
  test::Process dashboard =
      cluster.start({"dashboard", "--token-file", "token", "--allow-changes"});
  ASSERT_TRUE(dashboard.prints("http://")) << dashboard.output();
  const std::string output = dashboard.output();
  const std::size_t at = output.find("http://");
  browser_ = std::make_unique<Browser>();
  browser_->open(output.substr(at, output.find_first_of(" \n", at) - at));
  ASSERT_TRUE(browser_->comes("document.querySelector('#jobs a')?.textContent === 'real'"));
  browser_->evaluate("document.querySelector('#jobs a').click()");
  const std::string size =
      "(document.querySelector('#view-curves polyline')?.getAttribute('points') ?? '').split(' "
      "').length";
  ASSERT_TRUE(browser_->comes(size + " > 2")) << train.output();
  browser_->evaluate("window.before = " + size);
  EXPECT_TRUE(browser_->comes(size + " > before"));
  EXPECT_TRUE(browser_->comes("document.querySelectorAll('#processes tr').length === 4"));
  browser_->evaluate("location.hash += '&log=trainer-0'");
  EXPECT_TRUE(browser_->comes("document.querySelector('.lines').textContent.includes('cost')"));
  const auto click = [&](const std::string& name) {
    browser_->evaluate(fmt::format(
        "[...document.querySelectorAll('button')].find(one => one.textContent === '{}').click()",
        name));
  };
  click("Stop...");
  click("Stop");
  EXPECT_TRUE(browser_->comes(
      "document.querySelector('#banners').textContent.includes('The job has ended')"));
  EXPECT_TRUE(browser_->complaints().empty()) << browser_->complaints().front();
  browser_.reset();
  dashboard.signal(SIGINT);
  EXPECT_TRUE(dashboard.wait());
  train.wait();
  EXPECT_EQ(cluster.run({"teardown", "--yes", "--discard"}).code, 0);
  EXPECT_TRUE(cluster.nothing_left());
}

}  // namespace
}  // namespace paddle::cli
