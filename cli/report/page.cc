#include "cli/report/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/sha256.h"
#include "cli/console/console.h"
#include "cli/console/time_text.h"
#include "cli/report/curves.h"
#include "cli/report/style.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kEventsShownMax = 400;  // the last ones
constexpr std::size_t kPassLinesMax = 100;    // likewise
constexpr std::size_t kEventBytesMax = 600;
constexpr std::size_t kProcessesShownMax = 1000;
constexpr std::size_t kLagBucketsMax = 64;

std::string base64(ByteSpan data) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, data.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = (bits << 8U) | (k < count ? std::to_integer<std::uint32_t>(data[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= count ? kDigits[(bits >> (18 - 6 * k)) & 63U] : '=';
    }
  }
  return out;
}

std::string script_hash() {
  Sha256 hash;
  hash.update(as_bytes(kReportScript));
  const Sha256Digest digest = hash.finish();
  return "sha256-" + base64(digest);
}

// "1,234,567"
std::string count_text(double value) {
  if (!std::isfinite(value) || value < 0) return "-";
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string cell(const std::string& text, std::string_view style = "") {
  return fmt::format("<td class=\"{}\">{}</td>", style, html_text(text));
}

std::string section(const std::string& title, std::string_view id, std::string_view heads,
                    const std::string& rows) {
  if (rows.empty()) return "";
  return fmt::format(
      "<h2>{}</h2><div class=\"scroll\"><table id=\"{}\"><tr>{}</tr>\n{}</table></div>\n", title,
      id, heads, rows);
}

std::string tile(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>", html_text(value),
                     html_text(name));
}

std::string head(const JobRecord& record, const std::vector<TrainerCurve>& curves) {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool runs = false;
  bool failed = false;
  std::set<std::string> nodes;
  for (const ProcessRecord& process : record.processes) {
    if (process.started_unix_ms == 0) continue;  // a damaged record
    if (begin == 0 || process.started_unix_ms < begin) begin = process.started_unix_ms;
    end = std::max(end, process.ended_unix_ms);
    runs = runs || process.ended_unix_ms == 0;
    failed = failed || process.failed;
    nodes.insert(process.node);
  }
  double rate = 0;
  double samples = 0;
  for (const TrainerCurve& curve : curves) {
    rate += curve.mean_rate;
    samples += curve.samples;
  }
  std::string tiles = tile(runs ? "running" : span_text(end - begin), runs ? "state" : "duration");
  tiles += tile(counted(curves.size(), "trainer"),
                fmt::format("{}, {}", counted(record.processes.size() - curves.size(), "pserver"),
                            counted(nodes.size(), "node")));
  if (samples > 0) tiles += tile(count_text(samples), "examples trained on");
  if (rate > 0) tiles += tile(short_number(rate), "examples/s of all trainers");
  const Series test = held_out(leader_of(record), "");
  if (!test.points.empty()) {
    tiles += tile(fmt::format("{:.5g}", test.points.back().second), "held-out cost, the last");
  }
  return fmt::format("<h1>{}</h1><div class=\"sub\">{} UTC{}</div><div class=\"tiles\">{}</div>\n",
                     html_text(record.job), utc_text(begin),
                     failed ? " <span class=\"bad\">failed</span>" : "", tiles);
}

// The newest line of each port, and what all pushes waited.
std::string shards(const JobRecord& record) {
  std::string rows;
  std::vector<double> lags;
  for (const ProcessRecord& process : record.processes) {
    std::map<double, const MetricsLine*> newest;
    for (const MetricsLine& line : process.metrics) {
      if (line.kind == "pserver") newest[line.number("port").value_or(0)] = &line;
    }
    for (const auto& [port, line] : newest) {
      const auto number = [&, one = line](std::string_view key) {
        return one->number(key).value_or(0);
      };
      const double bytes = std::clamp(number("bytes"), 0.0, 1e18);
      rows += "<tr>" + cell(process.node) + cell(process.role) +
              cell(fmt::format("{:.0f}", port), "n") +
              cell(number("sparse") > 0 ? "sparse" : "dense") +
              cell(count_text(number("rows")), "n") +
              cell(human_bytes(static_cast<std::uint64_t>(bytes)), "n") +
              cell(count_text(number("pushes")), "n") + cell(count_text(number("batches")), "n") +
              "</tr>\n";
      for (const auto& [key, values] : line->lists) {
        if (key != "lags") continue;
        lags.resize(std::min(kLagBucketsMax, std::max(lags.size(), values.size())));
        for (std::size_t i = 0; i < values.size() && i < lags.size(); ++i) lags[i] += values[i];
      }
    }
  }
  std::vector<Bar> bars;
  for (std::size_t i = 0; i < lags.size(); ++i) {
    const double low = i == 0 ? 0 : std::ldexp(1, static_cast<int>(i) - 1);
    const double high = i == 0 ? 0 : std::ldexp(1, static_cast<int>(i)) - 1;
    const std::string name = low == high ? fmt::format("lag {:.0f}", low)
                                         : fmt::format("lag {:.0f} to {:.0f}", low, high);
    bars.push_back({name, count_text(lags[i]), lags[i], false});
  }
  std::string figure;
  if (!bars.empty()) {
    figure =
        "<div class=\"charts\">" +
        bar_chart("Pushes by the batches of others applied since their values were read", bars) +
        "</div>\n";
  }
  return section("Parameter servers", "shards",
                 "<th>node<th>role<th class=\"n\">port<th>kind<th class=\"n\">rows"
                 "<th class=\"n\">memory<th class=\"n\">pushes<th class=\"n\">batches",
                 rows) +
         figure;
}

std::string passes(const JobRecord& record) {
  const ProcessRecord* const leader = leader_of(record);
  std::vector<std::string> rows;
  for (const MetricsLine& line : leader == nullptr ? std::vector<MetricsLine>() : leader->metrics) {
    const bool test = line.kind == "test";
    if (!test && line.kind != "pass") continue;
    const auto cost = test ? line.cost : line.number("total_cost");
    const double samples =
        test ? static_cast<double>(line.samples) : line.number("total_samples").value_or(0);
    std::string values;
    for (const auto& [name, value] : test ? line.evaluators() : line.numbers) {
      if (!test && (!name.starts_with("total_") || name == "total_cost" || name == "total_samples"))
        continue;
      values += fmt::format("{} {:.5g}  ", test ? name : name.substr(6), value);
    }
    rows.push_back("<tr>" + cell(fmt::format("{}", line.pass), "n") +
                   cell(test ? "held-out" : "training") + cell(count_text(samples), "n") +
                   cell(cost ? fmt::format("{:.5g}", *cost) : "-", "n") + cell(values, "long") +
                   "</tr>\n");
  }
  std::string last;
  const std::size_t skipped = rows.size() > kPassLinesMax ? rows.size() - kPassLinesMax : 0;
  for (std::size_t i = skipped; i < rows.size(); ++i) last += rows[i];
  const std::string title = skipped == 0 ? "Passes"
                                         : fmt::format("Passes <small>the last {} of {}</small>",
                                                       kPassLinesMax, rows.size());
  return section(title, "passes",
                 "<th class=\"n\">pass<th>data<th class=\"n\">examples<th class=\"n\">cost"
                 "<th>evaluators",
                 last);
}

std::string events(const JobRecord& record) {
  const std::size_t count = record.events.size();
  const std::size_t skipped = count > kEventsShownMax ? count - kEventsShownMax : 0;
  std::string rows;
  for (std::size_t i = skipped; i < count; ++i) {
    const JobEvent& event = record.events[i];
    rows += "<tr>" + cell(utc_text(event.unix_ms)) + cell(event.role) +
            cell(event.text.substr(0, kEventBytesMax), event.is_bad ? "long bad" : "long") +
            "</tr>\n";
  }
  const std::string title =
      skipped == 0 ? "Events"
                   : fmt::format("Events <small>the last {} of {}</small>", kEventsShownMax, count);
  return section(title, "events", "<th>UTC<th>who<th>what", rows);
}

std::string processes(const JobRecord& record) {
  std::string rows;
  for (std::size_t i = 0; i < record.processes.size() && i < kProcessesShownMax; ++i) {
    const ProcessRecord& process = record.processes[i];
    const std::int64_t lived = process.ended_unix_ms - process.started_unix_ms;
    rows += "<tr>" + cell(process.node) + cell(process.role) +
            cell(process.state, process.failed ? "bad" : "") +
            cell(process.ended_unix_ms > 0 ? span_text(lived) : "-", "n") +
            cell(process.arguments, "long") + "</tr>\n";
  }
  return section("Processes", "processes",
                 "<th>node<th>role<th>state<th class=\"n\">ran<th>arguments", rows);
}

// Line by line: a line break is no control character here.
std::string configuration(const std::string& text) {
  std::string lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += html_text(std::string_view(text).substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  if (lines.empty()) return "";
  return "<h2>Configuration</h2><pre id=\"configuration\">" + lines + "</pre>\n";
}

}  // namespace

std::string report_page(const JobRecord& record) {
  const std::vector<TrainerCurve> curves = trainer_curves(record);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{}</title><style>{}</style></head>\n<body><main>\n",
      script_hash(), html_text(record.job), kReportStyle);
  page += head(record, curves) + curve_figures(record, curves);
  page += "<h2>Nodes</h2>" + bar_figures(record, curves);
  page += passes(record) + shards(record) + events(record) + processes(record);
  page += configuration(record.configuration);
  return page + "</main><div id=\"tip\"></div><script>" + kReportScript +
         "</script></body></html>\n";
}

}  // namespace paddle::cli
