@ 60 IN SOA ns hostmaster 1 2 3 4 5
www 60 IN A 192.0.2
