# Reads metrics as others do: text and OpenMetrics with Prometheus' own parsers, messages with Google's.
# Arguments: port, format. Prints each sample as "NAME VALUE" for values without labels but le.
import gzip, sys, urllib.request

port, kind = sys.argv[1:3]
ACCEPT = {
    'text': 'text/plain',
    'open': 'application/openmetrics-text;version=1.0.0',
    'protobuf': 'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited',
}
request = urllib.request.Request(f'http://127.0.0.1:{port}/metrics')
request.add_header('Accept', ACCEPT[kind])
request.add_header('Accept-Encoding', 'gzip')
reply = urllib.request.urlopen(request, timeout=20)
assert reply.headers['Content-Encoding'] == 'gzip'
assert reply.headers['Content-Type'].startswith(ACCEPT[kind].split(';')[0]), reply.headers
body = gzip.decompress(reply.read())


def messages():
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf import message_factory
    file = descriptor_pb2.FileDescriptorProto(name='metrics.proto', package='m', syntax='proto2')
    F = descriptor_pb2.FieldDescriptorProto
    def message(name, *fields):
        m = file.message_type.add(name=name)
        for field, number, of, repeated in fields:
            f = m.field.add(name=field, number=number)
            f.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
            f.type = of if isinstance(of, int) else F.TYPE_MESSAGE
            if not isinstance(of, int):
                f.type_name = '.m.' + of
    S, D, U = F.TYPE_STRING, F.TYPE_DOUBLE, F.TYPE_UINT64
    message('Label', ('name', 1, S, 0), ('value', 2, S, 0))
    message('Number', ('value', 1, D, 0))
    message('Bucket', ('cumulative_count', 1, U, 0), ('upper_bound', 2, D, 0))
    message('Histogram', ('count', 1, U, 0), ('sum', 2, D, 0), ('bucket', 3, 'Bucket', 1))
    message('Metric', ('label', 1, 'Label', 1), ('gauge', 2, 'Number', 0), ('counter', 3, 'Number', 0),
            ('histogram', 7, 'Histogram', 0))
    message('Family', ('name', 1, S, 0), ('help', 2, S, 0), ('type', 3, F.TYPE_INT32, 0), ('metric', 4, 'Metric', 1))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    get = getattr(message_factory, 'GetMessageClass', None) or message_factory.MessageFactory(pool).GetPrototype
    Family = get(pool.FindMessageTypeByName('m.Family'))
    at = 0
    while at < len(body):
        length, shift = 0, 0
        while True:
            octet, at = body[at], at + 1
            length |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                break
        family = Family.FromString(body[at:at + length])
        assert len(body) >= at + length and not family.UnknownFields() if hasattr(family, 'UnknownFields') else True
        at += length
        for metric in family.metric:
            labels = {label.name: label.value for label in metric.label}
            if family.type == 0:
                yield family.name, labels, metric.counter.value
            elif family.type == 1:
                yield family.name, labels, metric.gauge.value
            else:
                assert family.type == 4
                for bucket in metric.histogram.bucket:
                    bound = {**labels, 'le': bucket.upper_bound}
                    yield family.name + '_bucket', bound, bucket.cumulative_count
                yield family.name + '_bucket', {**labels, 'le': float('inf')}, metric.histogram.count
                yield family.name + '_sum', labels, metric.histogram.sum
                yield family.name + '_count', labels, metric.histogram.count


def text():
    if kind == 'open':
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
    else:
        from prometheus_client.parser import text_string_to_metric_families as parse
    for family in parse(body.decode()):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


for name, labels, value in messages() if kind == 'protobuf' else text():
    if 'le' in labels:
        labels = {**labels, 'le': float(labels['le'])}
    shown = ','.join(f'{label}={labels[label]}' for label in sorted(labels))
    # What changes from one scrape to the next is shown by its name alone.
    changes = name.startswith(('process_', 'nodens_')) or name.endswith('_sum')
    print(name, shown, '' if changes else float(value))
