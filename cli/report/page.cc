#include "cli/report/page.h"

#include <algorithm>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "cli/report/embedded_template.h"
#include "cli/report/job_json.h"
#include "cli/workspace/text_template.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kTemplateBytesMax = 1U << 20U;

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

// A source expression of a Content-Security-Policy.
std::string script_hash(std::string_view script) {
  Sha256 hash;
  hash.update(as_bytes(script));
  return "sha256-" + base64(hash.finish());
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text)) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return out;
}

std::string template_part(const std::string& share, const std::string& name, const char* embedded) {
  if (share.empty()) return embedded;
  auto text = read_file(share + "/templates/report/" + name, kTemplateBytesMax);
  return text ? *std::move(text) : embedded;
}

}  // namespace

Result<std::string> report_page(const JobRecord& record, const std::string& share) {
  const std::string script = template_part(share, "report.js", kReportScript);
  return fill_words("report.html", template_part(share, "report.html", kReportHtml),
                    {{"title", html_text(record.job)},
                     {"style", template_part(share, "report.css", kReportStyle)},
                     {"script", script},
                     {"script_hash", script_hash(script)},
                     {"job", job_json(record)}});
}

}  // namespace paddle::cli
