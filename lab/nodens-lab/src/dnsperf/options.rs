//! The command line of dnsperf 2.14.0, read as its `opt.c` does with getopt.

use lab_load::transport::{Method, Transport};
use lab_workload::edns::EdnsOption;
use lab_workload::tsig::Key;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What the command line asks for.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) family: Family,
    pub(super) transport: Transport,
    pub(super) server: String,
    pub(super) port: Option<u16>,
    pub(super) local_address: Option<IpAddr>,
    pub(super) local_port: Option<u16>,
    pub(super) file: Option<PathBuf>,
    pub(super) clients: usize,
    pub(super) threads: usize,
    pub(super) runs: u64,
    pub(super) time_limit: Option<Duration>,
    pub(super) buffer: bool,
    pub(super) timeout: Duration,
    pub(super) edns: bool,
    pub(super) edns_option: Option<EdnsOption>,
    pub(super) dnssec: bool,
    /// All that were given: the last one signs, and none is shown.
    pub(super) keys: Vec<Key>,
    pub(super) outstanding: usize,
    pub(super) rate: Option<u32>,
    pub(super) interval: Option<Duration>,
    pub(super) updates: bool,
    pub(super) binary: bool,
    pub(super) verbose: bool,
    pub(super) warnings_to_stdout: bool,
    /// Whether timeouts have no line each.
    pub(super) quiet_timeouts: bool,
    pub(super) doh_uri: String,
    pub(super) doh_method: Method,
    pub(super) tls_name: Option<String>,
    pub(super) queries_per_connection: Option<u64>,
    pub(super) interval_statistics: bool,
    pub(super) latency_histogram: bool,
    pub(super) json: bool,
    /// Ours: where to write the result file.
    pub(super) result: Option<PathBuf>,
}

/// Which addresses of the server's name are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    V4,
    V6,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            family: Family::Any,
            transport: Transport::Udp,
            server: "127.0.0.1".to_owned(),
            port: None,
            local_address: None,
            local_port: None,
            file: None,
            clients: 1,
            threads: 1,
            runs: 0,
            time_limit: None,
            buffer: false,
            timeout: Duration::from_secs(5),
            edns: false,
            edns_option: None,
            dnssec: false,
            keys: Vec::new(),
            outstanding: 100,
            rate: None,
            interval: None,
            updates: false,
            binary: false,
            verbose: false,
            warnings_to_stdout: false,
            quiet_timeouts: false,
            doh_uri: "https://localhost/dns-query".to_owned(),
            doh_method: Method::Get,
            tls_name: None,
            queries_per_connection: None,
            interval_statistics: false,
            latency_histogram: false,
            json: false,
            result: None,
        }
    }
}

/// What a command line is.
#[derive(Clone, Debug)]
pub(super) enum Parsed {
    /// `-h`.
    Help,
    /// `-H`.
    LongHelp,
    /// A run.
    Run(Box<Options>),
}

/// Options with a value; the others that exist are in [`FLAGS`].
const VALUED: &str = "fmspaxdcTnlbtEyqQSO";
const FLAGS: &str = "eDuBvWhH";

/// Reads the arguments behind the program's name.
pub(super) fn parse(arguments: &[String]) -> Result<Parsed, String> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(mut letters) = argument.strip_prefix('-').filter(|letters| !letters.is_empty())
        else {
            return Err(format!("unexpected argument {argument}"));
        };
        if letters == "-" {
            return rest
                .next()
                .map_or(Ok(()), |text| Err(format!("unexpected argument {text}")))
                .and_then(|()| checked(options));
        }
        while let Some(letter) = letters.chars().next() {
            letters = letters.get(letter.len_utf8()..).unwrap_or_default();
            if VALUED.contains(letter) {
                let own = Some(letters).filter(|value| !value.is_empty());
                let value = own.or_else(|| rest.next().map(String::as_str));
                let value =
                    value.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
                options.set(letter, value)?;
                break;
            }
            match letter {
                'h' => return Ok(Parsed::Help),
                'H' => return Ok(Parsed::LongHelp),
                _ if FLAGS.contains(letter) => options.raise(letter),
                _ => return Err(format!("invalid option -- '{letter}'")),
            }
        }
    }
    checked(options)
}

/// What dnsperf decides after it has read everything.
fn checked(mut options: Options) -> Result<Parsed, String> {
    let Options { edns, dnssec, updates, .. } = options;
    let made =
        edns || dnssec || updates || options.edns_option.is_some() || !options.keys.is_empty();
    if options.binary && made {
        return Err("-B is mutually exclusive with -D, -e, -E, -u, -y".to_owned());
    }
    if options.runs == 0 && options.time_limit.is_none() {
        options.runs = 1;
    }
    options.edns |= options.dnssec || options.edns_option.is_some();
    Ok(Parsed::Run(Box::new(options)))
}

impl Options {
    fn raise(&mut self, letter: char) {
        match letter {
            'e' => self.edns = true,
            'D' => self.dnssec = true,
            'u' => self.updates = true,
            'B' => self.binary = true,
            'v' => self.verbose = true,
            'W' => self.warnings_to_stdout = true,
            _ => {}
        }
    }

    fn set(&mut self, letter: char, value: &str) -> Result<(), String> {
        match letter {
            'f' => {
                self.family = match value {
                    "any" => Family::Any,
                    "inet" => Family::V4,
                    "inet6" => Family::V6,
                    _ => return Err(format!("invalid family {value}")),
                }
            }
            'm' => {
                let known = value.parse().ok();
                self.transport = known.ok_or_else(|| format!("invalid socket mode: {value}"))?;
            }
            's' => value.clone_into(&mut self.server),
            // As there: 0 is the port of the mode.
            'p' => self.port = Some(read("port", value)?).filter(|port| *port > 0),
            'a' => self.local_address = Some(read("local_addr", value)?),
            'x' => self.local_port = Some(read("local_port", value)?).filter(|port| *port > 0),
            'd' => self.file = Some(value.into()),
            'c' => self.clients = positive("clients", value)?,
            'T' => self.threads = positive("threads", value)?,
            'n' => self.runs = positive("maxruns", value)?,
            // As there: no limit.
            'l' => self.time_limit = seconds("timelimit", value)?,
            'b' => self.buffer = positive::<u32>("buffer_size", value)? > 0,
            // As there: every query is given up as soon as anybody looks.
            't' => self.timeout = seconds("timeout", value)?.unwrap_or(Duration::from_nanos(1)),
            'E' => {
                let option = value.parse();
                self.edns_option =
                    Some(option.map_err(|error| format!("invalid EDNS Option {value}: {error}"))?);
            }
            'y' => {
                let key = value.parse();
                self.keys.push(key.map_err(|error| format!("invalid TSIG key: {error}"))?);
            }
            'q' => self.outstanding = positive("num_queries", value)?,
            'Q' => self.rate = Some(positive("max_qps", value)?),
            'S' => self.interval = seconds("stats_interval", value)?,
            'O' => return self.set_long(value),
            _ => {}
        }
        Ok(())
    }

    /// `-O name=value`.
    fn set_long(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
        let needed = || value.ok_or_else(|| format!("missing value for long option: {name}"));
        match name {
            "doh-uri" => needed()?.clone_into(&mut self.doh_uri),
            "doh-method" => {
                self.doh_method = match needed()? {
                    "GET" => Method::Get,
                    "POST" => Method::Post,
                    other => return Err(format!("unknown DNS-over-HTTPS method: {other}")),
                }
            }
            "tls-sni" => self.tls_name = Some(needed()?.to_owned()),
            "suppress" => self.quiet_timeouts |= suppress(needed()?)?,
            "num-queries-per-conn" => {
                self.queries_per_connection = Some(positive("queries", needed()?)?);
            }
            "verbose-interval-stats" => self.interval_statistics = true,
            "latency-histogram" => self.latency_histogram = true,
            // How dnsperf waits; our schedule needs no help.
            "qps-threshold-wait" => _ = read::<u64>("microseconds", needed()?)?,
            "json" | "json-output" => self.json = true,
            "result" => self.result = Some(needed()?.into()),
            _ => return Err(format!("invalid long option: {text}")),
        }
        Ok(())
    }
}

/// Whether timeouts are among the messages. dnsperf compares as many characters as the user wrote, so
/// every prefix is a name.
fn suppress(list: &str) -> Result<bool, String> {
    const MESSAGES: [&str; 5] = ["timeouts", "congestion", "sendfailed", "sockready", "unexpected"];
    for name in list.split(',') {
        if !MESSAGES.iter().any(|message| message.starts_with(name)) {
            return Err(format!("unknown message type to suppress: {name}"));
        }
    }
    Ok(list.split(',').any(|name| "timeouts".starts_with(name)))
}

fn read<T: FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("invalid {what}: {text}"))
}

/// dnsperf takes no 0 where it wants a number of something.
fn positive<T: FromStr + Default + PartialEq>(what: &str, text: &str) -> Result<T, String> {
    let value: T = read(what, text)?;
    if value == T::default() { Err(format!("invalid {what}: {text}")) } else { Ok(value) }
}

/// Seconds, whole or not; `None` if there are none, which dnsperf takes everywhere.
fn seconds(what: &str, text: &str) -> Result<Option<Duration>, String> {
    let duration = Duration::try_from_secs_f64(read(what, text)?);
    let duration = duration.map_err(|_| format!("invalid {what}: {text}"))?;
    Ok(Some(duration).filter(|duration| !duration.is_zero()))
}

/// dnsperf's usage message, with this program's additions at the end.
pub(super) const USAGE: &str = "\
Usage: dnsperf [-f family] [-m mode] [-s server_addr] [-p port]
               [-a local_addr] [-x local_port] [-d datafile] [-c clients]
               [-T threads] [-n maxruns] [-l timelimit] [-b buffer_size]
               [-t timeout] [-e] [-E code:value] [-D]
               [-y [alg:]name:secret] [-q num_queries] [-Q max_qps]
               [-S stats_interval] [-u] [-B] [-v] [-W] [-h] [-H] [-O]
  -f address family of DNS transport, inet or inet6 (default: any)
  -m set transport mode: udp, tcp, dot, doh, doq or doh3 (default: udp)
  -s the server to query (default: 127.0.0.1)
  -p the port on which to query the server (default: udp/tcp 53, dot/doq 853 or doh/doh3 443)
  -a the local address from which to send queries
  -x the local port from which the first client sends, others from the next ones (default: 0, any)
  -d the input data file (default: stdin)
  -c the number of clients to act as
  -T the number of threads to run
  -n run through input at most N times
  -l run for at most this many seconds
  -b socket send/receive buffer size in kilobytes (taken and not used: it is always large)
  -t the timeout for query completion in seconds (default: 5)
  -e enable EDNS 0
  -E send EDNS option
  -D set the DNSSEC OK bit (implies EDNS)
  -y the TSIG algorithm, name and secret (base64)
  -q the maximum number of queries outstanding (default: 100)
  -Q limit the number of queries per second: sent on schedule, whether or not answers come
  -S print qps statistics every N seconds
  -u send dynamic updates instead of queries
  -B read input file as TCP-stream binary format
  -v verbose: report additional information to stdout
  -W log warnings and errors to stdout instead of stderr
  -h print this help
  -H print long options help
  -O set long options: <name>=<value>
";

pub(super) const LONG_USAGE: &str = "\
Usage: dnsperf ... -O <name>[=<value>] ...

Available long options:
  doh-uri=<doh_uri>: the URI to use for DNS-over-HTTPS (default: https://localhost/dns-query)
  doh-method=<doh_method>: the HTTP method to use for DNS-over-HTTPS: GET or POST (default: GET)
  suppress=<message[,message,...]>: print no lines about timeouts; others are never printed
  num-queries-per-conn=<queries>: Number of queries to send per connection
  verbose-interval-stats: print detailed statistics for each stats_interval
  latency-histogram: collect and print detailed latency histograms
  qps-threshold-wait=<microseconds>: taken and not used
  tls-sni=<tls_sni>: the TLS SNI to use for TLS connections
  json-output: print one JSON object per line instead of text
  result=<file>: write the result file of nodens-lab
";

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    fn options(text: &str) -> Options {
        match parse(&arguments(text)) {
            Ok(Parsed::Run(options)) => *options,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn error(text: &str) -> String {
        parse(&arguments(text)).unwrap_err()
    }

    #[test]
    fn letters_stand_together_and_values_behind_them_as_getopt_has_it() {
        let found = options("-eDs192.0.2.1 -p 5300 -l2.5 -vWd queries -c10 -T 2");
        assert!(found.edns && found.dnssec && found.verbose && found.warnings_to_stdout);
        assert_eq!((&*found.server, found.port), ("192.0.2.1", Some(5300)));
        assert_eq!(found.time_limit, Some(Duration::from_millis(2_500)));
        assert_eq!((found.clients, found.threads, found.runs), (10, 2, 0));
        assert_eq!(found.file, Some("queries".into()));
    }

    #[test]
    fn defaults_are_those_of_dnsperf() {
        let found = options("");
        assert_eq!((found.outstanding, found.runs, found.time_limit), (100, 1, None));
        assert_eq!((found.clients, found.threads), (1, 1));
        assert_eq!((found.timeout, found.rate), (Duration::from_secs(5), None));
        assert_eq!(options("-n 3 -l 1").runs, 3);
        assert!(options("-E 10:0011").edns && options("-D").edns);
        let zeros = options("-l 0 -t 0 -p 0 -x 0 -S 0");
        assert_eq!((zeros.time_limit, zeros.runs, zeros.port), (None, 1, None));
        assert_eq!((zeros.local_port, zeros.interval), (None, None));
        assert_eq!(zeros.timeout, Duration::from_nanos(1));
        assert_eq!(options("-x 5000").local_port, Some(5_000));
    }

    #[test]
    fn long_options_and_prefixes_of_messages_are_taken() {
        let found = options(
            "-O latency-histogram -Overbose-interval-stats -O suppress=t,congestion,unexp \
             -O num-queries-per-conn=7 -O tls-sni=dns.example -O json -O result=r.json -m doh \
             -O doh-uri=https://dns.example/q -O doh-method=POST -O qps-threshold-wait=0",
        );
        assert!(found.quiet_timeouts && !options("-O suppress=congestion").quiet_timeouts);
        assert!(found.latency_histogram && found.interval_statistics && found.json);
        assert_eq!((found.queries_per_connection, found.transport), (Some(7), Transport::Doh));
        assert_eq!((&*found.doh_uri, found.doh_method), ("https://dns.example/q", Method::Post));
        assert_eq!(found.result, Some("r.json".into()));
    }

    #[test]
    fn what_dnsperf_refuses_is_refused() {
        for (text, reason) in [
            ("-Z", "invalid option -- 'Z'"),
            ("-s", "option requires an argument -- 's'"),
            ("queries", "unexpected argument queries"),
            ("-- queries", "unexpected argument queries"),
            ("-c 0", "invalid clients: 0"),
            ("-q -1", "invalid num_queries: -1"),
            ("-l x", "invalid timelimit: x"),
            ("-p 70000", "invalid port: 70000"),
            ("-f inet5", "invalid family inet5"),
            ("-m sctp", "invalid socket mode: sctp"),
            ("-B -e", "-B is mutually exclusive with -D, -e, -E, -u, -y"),
            ("-O nothing", "invalid long option: nothing"),
            ("-O suppress=nothing", "unknown message type to suppress: nothing"),
            ("-O tls-sni", "missing value for long option: tls-sni"),
            ("-y a", "invalid TSIG key"),
            ("-x 70000", "invalid local_port: 70000"),
            ("-t -1", "invalid timeout: -1"),
        ] {
            let found = error(text);
            assert!(found.contains(reason), "{text}: {found}");
        }
        assert!(matches!(parse(&arguments("-e -h")), Ok(Parsed::Help)));
        assert!(matches!(parse(&arguments("-H")), Ok(Parsed::LongHelp)));
    }
}
