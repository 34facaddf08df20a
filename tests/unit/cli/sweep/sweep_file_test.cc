#include "cli/sweep/sweep_file.h"

#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

using Words = std::vector<std::string>;

Sweep parse(const std::string& text) {
  auto sweep = parse_sweep(text, "some/lr.toml");
  EXPECT_TRUE(sweep) << (sweep ? "" : sweep.error().message);
  return *std::move(sweep);
}

std::string mistake(const std::string& text, const std::string& file = "lr.toml") {
  const auto sweep = parse_sweep(text, file);
  return sweep ? "none" : sweep.error().message + "\n" + sweep.error().hint;
}

double number_in(const std::string& setting) {
  const std::string text = setting.substr(setting.find('=') + 1);
  double number = NAN;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  EXPECT_TRUE(error == std::errc() && end == text.data() + text.size()) << setting;
  return number;
}

const std::string kRate = "[[parameter]]\nkey = \"optimizer.learning_rate\"\n";

TEST(SweepFile, AGridHasAllCombinationsTheLastParameterFastest) {
  const Sweep sweep = parse(kRate +
                            "values = [0.1, 0.01]\n"
                            "[[parameter]]\nkey = \"optimizer.method\"\n"
                            "values = [\"adam\", \"it's \\\"a b\\\"\", true]\n");
  EXPECT_EQ(sweep.name, "lr");
  EXPECT_EQ(sweep.trials, 6U);
  EXPECT_EQ(sweep.job_of(5), "lr-005");
  EXPECT_EQ(sweep.tag(), "sweep=lr");
  EXPECT_EQ(sweep.settings_of(0),
            (Words{"optimizer.learning_rate=0.1", "optimizer.method=\"adam\""}));
  EXPECT_EQ(sweep.settings_of(1),
            (Words{"optimizer.learning_rate=0.1", "optimizer.method=\"it's \\\"a b\\\"\""}));
  EXPECT_EQ(sweep.settings_of(5), (Words{"optimizer.learning_rate=0.01", "optimizer.method=true"}));
}

// A command that goes on draws what the killed one drew, whichever trial it begins with.
TEST(SweepFile, ADrawDependsOnSeedKeyAndTrialAlone) {
  const std::string size = "[[parameter]]\nkey = \"train.batch_size\"\nvalues = [16, 32, 64]\n";
  const std::string head = "method = \"random\"\ntrials = 50\n";
  const std::string rate = kRate + "log = [1e-4, 0.1]\n";
  const Sweep one = parse(head + rate + size), other = parse(head + size + rate);
  const Sweep seeded = parse("seed = 2\n" + head + rate + size);
  EXPECT_EQ(one.settings_of(7), one.settings_of(7));
  int changed = 0;
  for (std::size_t i = 50; i-- > 0;) {
    const Words settings = one.settings_of(i);
    EXPECT_EQ(other.settings_of(i), (Words{settings[1], settings[0]}));
    changed += seeded.settings_of(i) != settings ? 1 : 0;
  }
  EXPECT_GE(changed, 49);
  // Pinned: a sweep may go on with a later release.
  EXPECT_EQ(one.settings_of(0)[0], parse(head + rate).settings_of(0)[0]);
}

TEST(SweepFile, DrawsFillTheirRangesAndKeepTheirBounds) {
  const Sweep sweep = parse(
      "method = \"random\"\ntrials = 1000\n"
      "[[parameter]]\nkey = \"a\"\nuniform = [-1, 3]\n"
      "[[parameter]]\nkey = \"b\"\nlog = [1e-5, 1e-1]\n"
      "[[parameter]]\nkey = \"c\"\ninteger = [2, 4]\n"
      "[[parameter]]\nkey = \"d\"\nuniform = [0.12345678, 0.12345679]\n");
  double sum = 0, logs = 0;
  std::set<double> integers, close;
  for (std::size_t i = 0; i < sweep.trials; ++i) {
    const Words settings = sweep.settings_of(i);
    const double a = number_in(settings[0]), b = number_in(settings[1]);
    EXPECT_TRUE(a >= -1 && a <= 3) << settings[0];
    EXPECT_TRUE(b >= 1e-5 && b <= 1e-1) << settings[1];
    const double d = number_in(settings[3]);
    EXPECT_TRUE(d >= 0.12345678 && d <= 0.12345679) << settings[3];
    close.insert(d);
    sum += a;
    logs += std::log10(b);
    integers.insert(number_in(settings[2]));
    EXPECT_LE(settings[1].size(), std::string("b=0.000123456").size());
  }
  EXPECT_NEAR(sum / 1000, 1, 0.15);
  EXPECT_NEAR(logs / 1000, -3, 0.15) << "as many values below 1e-3 as above";
  EXPECT_GE(close.size(), 900U) << "they are not rounded to the bounds";
  EXPECT_EQ(integers, (std::set<double>{2, 3, 4}));
}

TEST(SweepFile, NamesTheLineAndTheColumnOfAMistake) {
  const std::string values = "values = [1]\n";
  EXPECT_TRUE(mistake("method = \"gird\"\n" + kRate + values)
                  .starts_with("lr.toml:1:10: 'method' is 'gird', but must be one of 'grid', "
                               "'random', 'halving'; did you "
                               "mean 'grid'?\n  method = \"gird\"\n           ^"))
      << mistake("method = \"gird\"\n" + kRate + values);
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"", "there is no [[parameter]]"},
      {kRate, "lr.toml:1:1: a [[parameter]] lacks its values"},
      {kRate + "values = []\n", "lr.toml:3:10: 'values' is empty"},
      {kRate + "values = [1, 2, 1]\n", "lr.toml:3:10: 'values' has 1 twice"},
      {"method = \"random\"\ntrials = 3\n" + kRate + "uniform = [3, 3]\n", "values = [3]"},
      {"method = \"random\"\ntrials = 3\n" + kRate + "uniform = [3, nan]\n",
       "'uniform' must be two finite numbers, the lower first"},
      {kRate + "values = 3\n", "lr.toml:3:10: 'values' must be an array, not an integer"},
      {kRate + "values = [1]\nlog = [1, 2]\n", "a [[parameter]] has 'values' and 'log'"},
      {kRate + "log = [1, 2]\n", "lr.toml:3:7: a grid cannot have all values of 'log'"},
      {"[[parameter]]\nkey = \"a b\"\n" + values, "lr.toml:2:7: 'a b' is no key of job.toml"},
      {"[[parameter]]\nkey = \"a=1\\n[x]\"\n" + values, "is no key of job.toml"},
      {kRate + values + kRate + values, "lr.toml:5:7: two parameters have the key"},
      {kRate + values + "vlaues = [2]\n", "unknown key 'vlaues', did you mean 'values'?"},
      {"trials = 3\n" + kRate + values, "lr.toml:1:10: 'trials' is for method"},
      {"passes_min = 3\n" + kRate + values, "lr.toml:1:14: 'passes_min' is for method"},
      {"method = \"random\"\n" + kRate + values, "'trials' is missing"},
      {"method = \"random\"\ntrials = 1001\n" + kRate + values, "from 1 to 1000"},
      {"at_once = 0\n" + kRate + values, "'at_once' is 0, but must be from 1 to 100"},
      {"name = \"a/b\"\n" + kRate + values, "'a/b' cannot begin the names of jobs"},
      {"figure = \"\"\n" + kRate + values, "lr.toml:1:10: 'figure' is empty"}};
  for (const auto& [text, wanted] : mistakes)
    EXPECT_NE(mistake(text).find(wanted), std::string::npos) << text << mistake(text);
  EXPECT_NE(
      mistake(kRate + values, "a b.toml").find("there is no 'name', and the file's name 'a b'"),
      std::string::npos);
  const std::string random = "method = \"random\"\ntrials = 3\n" + kRate;
  for (const char* range :
       {"log = [0, 1]", "uniform = [1, 1]", "uniform = [1]", "uniform = [1, inf]",
        "integer = [0.5, 2]", "uniform = [2, 1]", "log = [\"a\", 2]"})
    EXPECT_NE(mistake(random + range + "\n").find("lr.toml:5:"), std::string::npos)
        << range << mistake(random + range + "\n");
}

TEST(SweepFile, AGridOfTooManyTrialsIsRefused) {
  std::string text;
  for (int i = 0; i < 11; ++i)
    text += fmt::format("[[parameter]]\nkey = \"k{}\"\nvalues = [1, 2]\n", i);
  EXPECT_NE(mistake(text).find("the grid has over 1000 trials"), std::string::npos);
}

}  // namespace
}  // namespace paddle::cli
