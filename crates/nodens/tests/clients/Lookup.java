import java.net.InetAddress;
import java.net.UnknownHostException;

/** Looks names up as Java programs do and prints the addresses. */
public final class Lookup {
    public static void main(String[] names) {
        for (String name : names) {
            try {
                for (InetAddress address : InetAddress.getAllByName(name)) {
                    System.out.println(name + " " + address.getHostAddress());
                }
            } catch (UnknownHostException error) {
                System.out.println(name + ": no such host");
            }
        }
    }
}
