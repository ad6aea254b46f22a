# frozen_string_literal: true

module MppRecorder
  # Where the control sockets stand, and who may speak through them: what `mpprecord ctl` and the recorded process agree on.
  #
  # One line of JSON each way, then the connection ends: {"command":"mark","name":"warm"} is answered by {"ok":true,"path":"…"} or
  # {"error":"why"}. The directory is the user's alone (0700), so is the socket (0600), and each end asks the kernel who the other is.
  unless const_defined?(:ControlSocket, false)
    module ControlSocket
      SUFFIX = ".sock"
      PATH_BYTES = 107 # sun_path, with its NUL
      LINE_BYTES = 1 << 16
      PEERCRED = "iII" # struct ucred: pid, uid, gid

      module_function

      # The directory for this process's own socket, made if need be.
      def directory
        candidates = [ENV["XDG_RUNTIME_DIR"], "/tmp"].reject { |d| d.to_s.empty? }
        candidates.each do |root|
          path = in_root(root, Process.euid)
          next if path_in(path, 4_194_304).bytesize > PATH_BYTES

          begin
            Dir.mkdir(path, 0o700)
          rescue Errno::EEXIST
            return path if private?(path, Process.euid)
          rescue SystemCallError
            next
          else
            return path
          end
        end
        raise ArgumentError, "no private directory for the control socket in #{candidates.join(" or ")}"
      end

      # Where the socket of a process of this user may be.
      def candidates(pid, uid)
        roots = [ENV["XDG_RUNTIME_DIR"], "/run/user/#{uid}", "/tmp"].reject { |d| d.to_s.empty? }.uniq
        roots.flat_map { |root| [uid, 0].uniq.map { |owner| [in_root(root, owner), owner] } }
             .select { |directory, owner| private?(directory, owner) }
             .map { |directory, _| path_in(directory, pid) }
      end

      def in_root(root, uid)
        File.join(root, "mpp-#{uid}")
      end

      def path_in(directory, pid)
        File.join(directory, "#{pid}#{SUFFIX}")
      end

      # Nobody else can have put anything there.
      def private?(directory, uid)
        status = File.lstat(directory)
        status.directory? && status.uid == uid && (status.mode & 0o077).zero?
      rescue SystemCallError
        false
      end

      # Sockets of processes that died without a chance to remove them.
      def sweep(directory)
        Dir.children(directory).each do |name|
          pid = name[/\A(\d+)#{Regexp.escape(SUFFIX)}\z/, 1] or next
          File.unlink(File.join(directory, name)) unless File.directory?("/proc/#{pid}")
        end
      rescue SystemCallError
        nil # another process swept at the same time
      end

      # pid and uid of the other end, as the kernel knows them.
      def peer(socket)
        socket.getsockopt(Socket::SOL_SOCKET, Socket::SO_PEERCRED).unpack(PEERCRED).first(2)
      end
    end
  end
end
