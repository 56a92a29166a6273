package Testbed::Certificates;

# A certificate authority for the test, made with openssl.

use strict;
use warnings;
use Testbed::Process;

my $count = 0;

# Options: by => the authority that signs it; without it: a self-signed root
sub new {
    my ($class, $bed, %options) = @_;
    my $dir = $bed->dir . '/ca' . ++$count;
    mkdir $dir or die "$dir: $!";
    my $self = bless { bed => $bed, dir => $dir, issued => 0 }, $class;
    $bed->write_file("ca$count/extensions", "basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash\n");
    my $request = $self->request('ca', "authority $count");
    if (my $by = $options{by}) {
        $self->openssl('x509', '-req', '-in', $request, $by->signer, '-days', 2, '-extfile', "$dir/extensions", '-out', "$dir/ca.pem");
    }
    else {
        $self->openssl('x509', '-req', '-in', $request, '-signkey', "$dir/ca.key", '-days', 2, '-extfile', "$dir/extensions", '-out', "$dir/ca.pem");
    }
    return $self;
}

sub file   { return "$_[0]{dir}/ca.pem" }
sub signer { my ($self) = @_; return ('-CA', $self->file, '-CAkey', "$self->{dir}/ca.key", '-CAcreateserial') }

# A new certificate for these names, as 'DNS:redis.test', 'IP:127.0.0.1': (its file, its key's file).
# Options: expired => 1
sub issue {
    my ($self, $names, %options) = @_;
    my $name = 'leaf' . ++$self->{issued};
    my $stem = "$self->{dir}/$name";
    open my $extensions, '>', "$stem.ext" or die $!;
    print $extensions "basicConstraints=CA:FALSE\n", @$names ? 'subjectAltName=' . join(',', @$names) . "\n" : '';
    close $extensions;
    $self->openssl('x509', '-req', '-in', $self->request($name, $name), $self->signer, '-days', $options{expired} ? 0 : 2,
        '-extfile', "$stem.ext", '-out', "$stem.pem");
    return ("$stem.pem", "$stem.key");
}

sub request {
    my ($self, $file, $subject) = @_;
    my $stem = "$self->{dir}/$file";
    $self->openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', "$stem.key",
        '-subj', "/CN=$subject", '-out', "$stem.csr");
    return "$stem.csr";
}

sub openssl {
    my ($self, @words) = @_;
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>>', "$self->{dir}/openssl.log";
        open STDERR, '>&', \*STDOUT;
        exec 'openssl', @words or POSIX::_exit(127);
    }
    waitpid $pid, 0;
    $? == 0 or die "openssl @words:\n" . Testbed::Process::slurp("$self->{dir}/openssl.log");
    return;
}

1;
