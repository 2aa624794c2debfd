import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * Asks over TLS with a socket and over HTTPS with the HTTP client of the JDK, and prints what comes.
 *
 * <p>Arguments: the ports of both, the file of the authority, and a query in hexadecimal digits.
 */
public final class Encrypted {
    public static void main(String[] args) throws Exception {
        SSLContext context = trusting(args[2]);
        byte[] query = HexFormat.of().parseHex(args[3]);
        overTls(context, Integer.parseInt(args[0]), query);
        overHttps(context, args[1], query);
    }

    private static SSLContext trusting(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream file = new FileInputStream(authority)) {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            store.setCertificateEntry("authority", factory.generateCertificate(file));
        }
        TrustManagerFactory trust =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private static void overTls(SSLContext context, int port, byte[] query) throws Exception {
        for (String version : List.of("TLSv1.2", "TLSv1.3")) {
            InetAddress server = InetAddress.getLoopbackAddress();
            try (SSLSocket socket =
                    (SSLSocket) context.getSocketFactory().createSocket(server, port)) {
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setProtocols(new String[] {version});
                parameters.setServerNames(List.of(new SNIHostName("dns.example")));
                parameters.setApplicationProtocols(new String[] {"dot"});
                socket.setSSLParameters(parameters);
                DataOutputStream out = new DataOutputStream(socket.getOutputStream());
                DataInputStream in = new DataInputStream(socket.getInputStream());
                for (int number = 0; number < 20; number++) {
                    out.writeShort(query.length);
                    out.write(query);
                }
                for (int number = 0; number < 20; number++) {
                    byte[] answer = in.readNBytes(in.readUnsignedShort());
                    String protocol = socket.getApplicationProtocol();
                    System.out.println(
                            version + " " + protocol + " " + HexFormat.of().formatHex(answer));
                }
            }
        }
    }

    private static void overHttps(SSLContext context, String port, byte[] query) throws Exception {
        HttpClient client =
                HttpClient.newBuilder()
                        .sslContext(context)
                        .version(HttpClient.Version.HTTP_2)
                        .build();
        String url = "https://127.0.0.1:" + port + "/dns-query";
        String text = Base64.getUrlEncoder().withoutPadding().encodeToString(query);
        HttpRequest get = HttpRequest.newBuilder(URI.create(url + "?dns=" + text)).build();
        HttpRequest post =
                HttpRequest.newBuilder(URI.create(url))
                        .header("Content-Type", "application/dns-message")
                        .POST(HttpRequest.BodyPublishers.ofByteArray(query))
                        .build();
        List<CompletableFuture<HttpResponse<byte[]>>> all = new ArrayList<>();
        for (int number = 0; number < 50; number++) {
            HttpRequest request = number % 2 == 0 ? get : post;
            all.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray()));
        }
        for (CompletableFuture<HttpResponse<byte[]>> one : all) {
            HttpResponse<byte[]> response = one.get();
            String body = HexFormat.of().formatHex(response.body());
            System.out.println(response.version() + " " + response.statusCode() + " " + body);
        }
    }
}
